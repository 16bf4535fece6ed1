// Timing several ways to compute the same thing, interleaved, so that all of them meet the same state of the machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace bench {

// One way to compute a row's result.
struct Contender {
  std::string name;
  std::function<void()> call;
};

struct MeasureOptions {
  double seconds = 4.0;
  int min_rounds = 3;
  int threads = 1;
  std::function<void()> every_round = {};  // runs between rounds, while no contender's threads are busy
};

struct Timing {
  double milliseconds = 0;  // of one call: the median over the rounds
  double spread = 0;        // interquartile range / median
  int rounds = 0;
};

// The value below which `share` of the values lie: 0.5 is the median.
double quantile(std::vector<double> values, double share);

// Calls every contender in turn, in an order that rotates with the round, until the time is used up.
std::vector<Timing> measure_interleaved(const std::vector<Contender>& contenders, const MeasureOptions& options);

// How busy other programs keep the machine while this one measures.
class OtherLoad {
 public:
  OtherLoad();
  // Their share of all processors' time since the constructor; 0 where the system does not report it.
  double share() const;

 private:
  double busy_seconds_;
  double own_seconds_;
  double wall_seconds_;
};

}  // namespace bench
