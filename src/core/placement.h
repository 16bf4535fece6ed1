// On which processor a thread of the pool wakes up.
#pragma once

#ifdef __linux__
#include <sched.h>
#include <unistd.h>

#include <cstddef>
#include <utility>
#endif

namespace headway::inline v0::internal {

#ifdef __linux__

// The processors that the threads of one job run on, as far as the caller knows.
class BusyProcessors {
 public:
  BusyProcessors() {
    CPU_ZERO(&set_);
    add(sched_getcpu());
  }
  void add(int processor) {
    if (processor >= 0) CPU_SET(static_cast<std::size_t>(processor), &set_);
  }
  bool has(int processor) const { return processor >= 0 && CPU_ISSET(static_cast<std::size_t>(processor), &set_); }

  // The processors of `allowed` that are not busy.
  cpu_set_t others(const cpu_set_t& allowed) const {
    cpu_set_t result;
    CPU_AND(&result, &allowed, &set_);
    CPU_XOR(&result, &allowed, &result);
    return result;
  }

 private:
  cpu_set_t set_;
};

// A sleeping thread wakes on the processor where it last ran. Where that one is busy with the same job, the system lets
// the thread wait for milliseconds although other processors are idle, unless its affinity excludes the busy one. The
// caller sets the affinity while the thread is idle; all other members belong to the thread.
class Placement {
 public:
  void steer(BusyProcessors& busy) {
    if (busy.has(processor_)) move_away(busy);
    busy.add(processor_);
  }
  // At the start of a job: lifts the caller's restriction.
  void begin() {
    if (std::exchange(steered_, false)) sched_setaffinity(0, sizeof(allowed_), &allowed_);
  }
  // At the end of a job.
  void end() {
    thread_ = gettid();
    processor_ = sched_getcpu();
  }

 private:
  void move_away(const BusyProcessors& busy) {
    if (!steered_ && sched_getaffinity(thread_, sizeof(allowed_), &allowed_) != 0) return;
    const cpu_set_t others = busy.others(allowed_);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(thread_, sizeof(others), &others) == 0) steered_ = true;
  }

  pid_t thread_ = 0;
  int processor_ = -1;  // where it ran last
  bool steered_ = false;
  cpu_set_t allowed_;
};

#else

class BusyProcessors {};
struct Placement {
  void steer(BusyProcessors&) {}
  void begin() {}
  void end() {}
};

#endif

}  // namespace headway::inline v0::internal
