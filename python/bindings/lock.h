// The interpreter's lock, and calls of Python from C++, for threads that may still run when the interpreter ends.
// Python ends a daemon thread where it next waits for the lock, by unwinding its stack, and frames of C++ abort the
// process then. Such a thread stops for ever instead, as it does by itself since Python 3.14.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>

namespace headway::python {

namespace nb = nanobind;

// Releases the lock while it exists.
class LockReleased {
 public:
  LockReleased() : state_(PyEval_SaveThread()) {}
  ~LockReleased();
  LockReleased(const LockReleased&) = delete;
  LockReleased& operator=(const LockReleased&) = delete;

 private:
  PyThreadState* state_;
};

// Holds the lock while it exists, in any thread.
class LockHeld {
 public:
  LockHeld();
  ~LockHeld() { PyGILState_Release(state_); }
  LockHeld(const LockHeld&) = delete;
  LockHeld& operator=(const LockHeld&) = delete;

 private:
  PyGILState_STATE state_;
};

// function(*arguments), with the lock held. Everything that may run Python's own code is called like this.
nb::object call_with(nb::handle function, PyObject* const* arguments, std::size_t count);

template <typename... Arguments>
nb::object call_python(nb::handle function, const Arguments&... arguments) {
  const std::array<nb::object, sizeof...(Arguments)> objects = {nb::cast(arguments)...};
  std::array<PyObject*, sizeof...(Arguments) + 1> pointers = {};
  for (std::size_t i = 0; i < objects.size(); ++i) pointers[i] = objects[i].ptr();
  return call_with(function, pointers.data(), objects.size());
}

// A copy of a Python object that is destroyed with the lock held, in whatever thread its last owner is.
template <typename Object>
std::shared_ptr<Object> released_with_lock(const Object& object) {
  return {new Object(object), [](Object* copy) {
            if (Py_IsInitialized() == 0) return;  // the interpreter is gone, and its objects with it
            const LockHeld held;
            delete copy;
          }};
}

// Lets Ctrl-C and other signals end a call; for where the lock is held.
void raise_signals();

// The same for a long computation without the lock: looks for signals ten times a second at most.
class SignalWatch {
 public:
  void operator()();

 private:
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kInterval;
  static constexpr std::chrono::milliseconds kInterval{100};
};

}  // namespace headway::python
