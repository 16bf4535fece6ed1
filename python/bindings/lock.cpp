#include "bindings/lock.h"

#include <unistd.h>

namespace headway::python {
namespace {

[[noreturn]] void stop_for_ever() {
  while (true) ::pause();
}

// Calls a function of Python's, which throws nothing: what is caught is the unwinding of a thread that is ended.
template <typename Call>
auto call_or_stop(const Call& call) noexcept {
  try {
    return call();
  } catch (...) {
    stop_for_ever();
  }
}

}  // namespace

LockReleased::~LockReleased() {
  call_or_stop([this] { PyEval_RestoreThread(state_); });
}

LockHeld::LockHeld() : state_(call_or_stop([] { return PyGILState_Ensure(); })) {}

nb::object call_with(nb::handle function, PyObject* const* arguments, std::size_t count) {
  PyObject* result = call_or_stop([&] { return PyObject_Vectorcall(function.ptr(), arguments, count, nullptr); });
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

void raise_signals() {
  if (call_or_stop([] { return PyErr_CheckSignals(); }) != 0) throw nb::python_error();
}

void SignalWatch::operator()() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  const LockHeld held;
  raise_signals();
}

}  // namespace headway::python
