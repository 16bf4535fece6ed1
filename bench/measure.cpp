#include "measure.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBatchSeconds = 0.004;  // calls shorter than this are timed several at a time
constexpr double kLongSeconds = 0.020;   // calls longer than this need no warm-up in every round
constexpr double kQuietSeconds = 0.100;  // the longest wait for threads that still spin

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double process_seconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double wall_seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

// Seconds that the processors did not idle since the start of the machine, summed over all of them.
double busy_seconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0;  // the first columns of the line "cpu", in ticks
  file >> name >> user >> nice >> system;
  return (user + nice + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

// Waits until no thread of the process computes. OpenMP's workers spin for milliseconds after a parallel region, and
// would take a core from the next contender.
void wait_until_quiet() {
  const auto start = Clock::now();
  while (seconds_since(start) < kQuietSeconds) {
    const double before = process_seconds();
    // A thread that runs elsewhere is charged at the timer's ticks: a window shorter than two of them may miss it.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (process_seconds() - before < 0.001) return;
  }
}

double timed(const std::function<void()>& call, int calls) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  return seconds_since(start) / calls;
}

Timing summarise(const std::vector<double>& seconds) {
  const double middle = quantile(seconds, 0.5);
  return {middle * 1e3, (quantile(seconds, 0.75) - quantile(seconds, 0.25)) / middle, static_cast<int>(seconds.size())};
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double position = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(position);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (position - static_cast<double>(low)) * (values[high] - values[low]);
}

std::vector<Timing> measure_interleaved(const std::vector<Contender>& contenders, const MeasureOptions& options) {
  const std::size_t count = contenders.size();
  const auto prepare = [&] {
    if (options.threads > 1) wait_until_quiet();
  };
  std::vector<double> warm_up(count);  // seconds of one call, to size the batches
  for (std::size_t i = 0; i < count; ++i) {
    prepare();
    warm_up[i] = timed(contenders[i].call, 1);
    if (warm_up[i] < kLongSeconds) warm_up[i] = timed(contenders[i].call, 1);
  }

  std::vector<std::vector<double>> seconds(count);
  const auto start = Clock::now();
  for (int round = 0; round < options.min_rounds || seconds_since(start) < options.seconds; ++round) {
    for (std::size_t turn = 0; turn < count; ++turn) {
      const std::size_t i = (turn + static_cast<std::size_t>(round)) % count;
      prepare();
      if (warm_up[i] < kLongSeconds) contenders[i].call();
      const int calls = std::max(1, static_cast<int>(std::ceil(kBatchSeconds / warm_up[i])));
      seconds[i].push_back(timed(contenders[i].call, calls));
    }
    if (options.every_round) {
      prepare();
      options.every_round();
    }
  }
  std::vector<Timing> timings;
  for (const auto& one : seconds) timings.push_back(summarise(one));
  return timings;
}

OtherLoad::OtherLoad()
    : busy_seconds_(busy_seconds()), own_seconds_(process_seconds()), wall_seconds_(wall_seconds()) {}

double OtherLoad::share() const {
  const double others = (busy_seconds() - busy_seconds_) - (process_seconds() - own_seconds_);
  const double all = (wall_seconds() - wall_seconds_) * static_cast<double>(std::thread::hardware_concurrency());
  return std::max(0.0, others / all);
}

}  // namespace bench
