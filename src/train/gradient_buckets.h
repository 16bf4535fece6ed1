// Gradients that are summed over ranks while the backward pass still runs, and parameters that are gathered again.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "headway/communicator.h"
#include "headway/module.h"
#include "train/optimizer_state.h"

namespace headway::inline v0::internal {

// Parameters of one dtype that travel together, side by side. Each rank gets the sum of its share and updates it.
struct Bucket {
  struct Part {
    std::size_t parameter = 0;  // its number
    std::int64_t begin = 0;     // of its elements in the bucket
    std::int64_t count = 0;
  };

  std::vector<Part> parts;
  std::int64_t count = 0;            // elements
  std::vector<std::int64_t> shares;  // elements of each rank
  std::int64_t own_begin = 0;        // of this rank's share in the bucket
  std::int64_t own_count = 0;
};

class GradientBuckets {
 public:
  // `order` has the numbers of all parameters in about the order in which a backward pass completes their gradients;
  // the same on every rank. A bucket is closed when it has `bytes`.
  GradientBuckets(Communicator ranks, const std::vector<NamedTensor>& parameters, const std::vector<std::size_t>& order,
                  std::int64_t bytes);

  // The elements that each rank updates, [parameter][rank].
  std::vector<std::vector<ElementRange>> ranges() const;

  // ---- one step ----
  void begin();
  // The parameter has its whole gradient on this rank, or none: takes it away. Buckets are sent in their order, each
  // when it and those before it are complete.
  void complete(std::size_t parameter);
  // Sends what is left and waits for all sums.
  void finish();
  bool is_complete(std::size_t parameter) const { return is_complete_[parameter]; }
  bool had_gradient(std::size_t parameter) const { return had_gradient_[parameter]; }
  // The sums of this rank's elements, [parameter]: [own count] each.
  const std::vector<Tensor>& own_sums() const { return own_sums_; }
  void drop_sums();
  // Drops the sums, and gives every rank the other ranks' elements of the parameters.
  void gather_parameters();

 private:
  struct Transit {
    Tensor values;  // [count] of a bucket; undefined before its first gradient, and when it has been settled
    Tensor own;     // [own_count]
    Transfer transfer;
    std::size_t missing = 0;  // parameters that are not complete
  };
  // What one parameter and this rank's share of a bucket have in common, as places in the bucket.
  static ElementRange common(const Bucket& bucket, const Bucket::Part& part, std::int64_t begin, std::int64_t count);
  void close(Bucket& bucket);
  void start_complete_ones();
  // Waits for the sum of one bucket.
  void settle(std::size_t bucket);

  Communicator ranks_;
  std::vector<Tensor> parameters_;
  std::vector<Bucket> buckets_;
  std::vector<std::pair<std::size_t, std::size_t>> place_of_;  // [parameter]: its bucket, and its part there
  std::vector<Transit> transits_;                              // of the step, [bucket]
  std::size_t started_ = 0;                                    // buckets
  std::vector<char> had_gradient_;
  std::vector<char> is_complete_;
  std::vector<Tensor> own_sums_;
};

}  // namespace headway::inline v0::internal
