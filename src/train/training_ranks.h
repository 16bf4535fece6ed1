// What training on several ranks adds to the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/autograd.h"
#include "headway/training.h"
#include "train/gradient_buckets.h"

namespace headway::inline v0::internal {

// A step in numbers, the same on all ranks.
struct StepNumbers {
  std::vector<double> losses;  // of all parts, in their order
  std::int64_t tokens = 0;
  GradientNorms norms;
  double waiting = 0.0;
  std::int64_t peak_bytes = 0;
};

// Every rank calls every function at the same time.
class TrainingRanks {
 public:
  // Throws on all ranks where they do not agree about the run, and shares out the optimizer's state. `learning_rates`
  // are some of the schedule's.
  TrainingRanks(const Module& module, Optimizer& optimizer, const TrainingOptions& options,
                const std::vector<double>& learning_rates);

  bool is_first() const { return ranks_.rank() == 0; }
  int rank() const { return ranks_.rank(); }
  int size() const { return ranks_.size(); }

  // ---- before the first step ----
  // Rank 0 reads a checkpoint, or nothing; the other ranks get all of it but the tensors.
  std::optional<Checkpoint> shared(const std::function<std::optional<Checkpoint>()>& read) const;
  // Gives every rank its share of the state that rank 0's checkpoint has.
  void load_optimizer(const StateDict& of_first) const;
  // Gives every rank the values of rank 0's module.
  void broadcast_module() const;

  // ---- a step ----
  void begin_step() { buckets_->begin(); }
  // While it lives, the next backward pass sends gradients as soon as they are complete.
  GradientWatch watch();
  // Waits for all sums. `losses` are those of this rank's parts.
  StepNumbers finish_step(const std::vector<Tensor>& losses, std::int64_t tokens);
  // Steps this rank's share and gathers the parameters.
  void update(double gradient_factor);
  void skip() { buckets_->drop_sums(); }
  // Whether any rank says so.
  bool any(bool here) const { return ranks_.all_reduce(here ? 1.0 : 0.0, Reduce::max) > 0.0; }

  // Rank 0 writes `checkpoint`, which other ranks leave empty but for the step, with the optimizer's state of all
  // ranks.
  void save(const std::filesystem::path& directory, const Checkpoint& checkpoint, std::int64_t keep) const;

 private:
  // What a rank tells the others of a step.
  std::vector<double> told(const std::vector<Tensor>& losses, std::int64_t tokens);

  Communicator ranks_;
  const Module& module_;
  Optimizer& optimizer_;
  std::optional<GradientBuckets> buckets_;
  std::vector<std::size_t> watched_;  // the parameters' numbers
  std::vector<bool> moved_;           // [parameter]: whether it has had a gradient on any rank in this step
  double waited_ = 0.0;               // seconds until the last step's end
  double told_at_ = 0.0;              // seconds since some moment
};

}  // namespace headway::inline v0::internal
