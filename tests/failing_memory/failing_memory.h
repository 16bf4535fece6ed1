// Memory that fails on purpose. A program that links this has its operator new, and Headway's own posix_memalign and
// mmap, counted; a test lets the n-th of them fail, for every n, and looks at what happens.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "headway/error.h"
#include "headway/tensor.h"

namespace headway_test {

enum class Failing { once, from_then_on };

// Lets the allocation with this number, counted from 1 and from now on, fail in whichever thread makes it.
void fail_allocation(std::int64_t number, Failing failing);
// Ends that. True where an allocation failed.
bool stop_failing();
// What operator new gave and operator delete has not taken back, without the entries of Headway's block cache, which is
// emptied.
std::int64_t live_allocations();

// The bits of a tensor.
inline std::string bytes_of(const headway::Tensor& tensor) {
  const headway::Tensor dense = tensor.contiguous();
  return std::string(static_cast<const char*>(dense.raw_data()),
                     static_cast<std::size_t>(dense.element_count()) * item_size(dense.dtype()));
}

// How a call ended.
enum class Ending { result, error, other };

// Calls `work`, which returns bytes, while an allocation fails. A call that hangs is ended by SIGALRM.
template <typename Work>
Ending call_failing(const Work& work, std::int64_t number, Failing failing, std::string& bytes, bool& failed) {
  constexpr unsigned kHangSeconds = 20;
  Ending ending = Ending::error;
  ::alarm(kHangSeconds);
  fail_allocation(number, failing);
  try {
    bytes = work();
    ending = Ending::result;
  } catch (const headway::Error&) {
  } catch (const std::bad_alloc&) {
  } catch (...) {
    ending = Ending::other;
  }
  failed = stop_failing();
  ::alarm(0);
  return ending;
}

// Calls `work` with every allocation failing in turn, `stride` apart, alone and with all that follow (those four times
// as far apart): each call gives the right bytes or an Error or std::bad_alloc, leaks nothing, and a call after it
// gives the right bytes.
template <typename Work>
void expect_survives_failing_memory(const Work& work, std::int64_t stride = 1) {
  const std::string expected = work();
  ASSERT_EQ(work(), expected);  // what is kept from call to call is there
  for (const Failing failing : {Failing::once, Failing::from_then_on}) {
    SCOPED_TRACE(failing == Failing::once ? "one allocation fails" : "all further allocations fail");
    const std::int64_t thinned = failing == Failing::once ? stride : 4 * stride;
    const std::int64_t step = std::getenv("HEADWAY_TEST_EVERY_ALLOCATION") ? 1 : thinned;
    const std::int64_t live = live_allocations();
    bool failed = true;
    std::int64_t number = 1, calls = 0, errors = 0;
    for (; failed; number += step) {
      {
        std::string bytes;
        const Ending ending = call_failing(work, number, failing, bytes, failed);
        ASSERT_NE(ending, Ending::other) << "allocation " << number << ": an exception of another type";
        ASSERT_TRUE(ending == Ending::error || bytes == expected) << "allocation " << number << ": wrong bytes";
        errors += ending == Ending::error;
      }
      ASSERT_LE(live_allocations(), live)
          << "allocation " << number << ": leaked";  // what is kept may be lost by a failure
      if (++calls % 4 != 0 && failed) continue;
      // A failure of which something stays is seen by any later call.
      ASSERT_EQ(work(), expected) << "allocation " << number << ": a call after it";
      ASSERT_LE(live_allocations(), live) << "allocation " << number << ": leaked, seen after the next call";
    }
    EXPECT_GT(errors, 0);
    testing::Test::RecordProperty("allocations", std::to_string(number));
  }
}

}  // namespace headway_test
