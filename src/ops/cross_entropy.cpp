// cross_entropy(): checks, allocates, calls the backend, records the gradient.
#include <algorithm>

#include "base/check.h"
#include "core/autograd.h"
#include "headway/ops.h"
#include "ops/rowwise.h"

namespace headway::inline v0 {
namespace {

using internal::BackwardCall;
using internal::check;
using internal::CrossEntropyRows;
using internal::Saved;
using internal::Tensors;

constexpr const char* kCrossEntropy = "cross_entropy";

// The targets, -1 where they are ignored.
std::vector<std::int64_t> read_targets(const Tensor& logits, const Tensor& targets, std::int64_t ignore_index) {
  std::vector<std::int64_t> values = internal::read_integers(kCrossEntropy, "targets", targets);
  Shape expected;
  for (int dim = 0; dim + 1 < logits.rank(); ++dim) expected.push_back(logits.size(dim));
  check(targets.shape() == expected, kCrossEntropy, ": targets is ", targets, ", expected ", expected, " for logits ",
        logits);
  const std::int64_t classes = logits.size(-1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == ignore_index) {
      values[i] = -1;
    } else if (values[i] < 0 || values[i] >= classes) {
      internal::fail(kCrossEntropy, ": target ", values[i], " at ",
                     internal::indices_of(static_cast<std::int64_t>(i), targets.shape()),
                     " is out of range, expected one of ", classes, " classes or the ignore_index ", ignore_index);
    }
  }
  return values;
}

struct CrossEntropySaved {
  Saved logits;
  Tensor targets;    // (rows) int64
  Tensor logsumexp;  // (rows)
  double smoothing = 0;
  double factor = 1;  // 1 / count for the mean
};

Tensors cross_entropy_backward(const CrossEntropySaved& saved, BackwardCall& call) {
  const Tensor logits = internal::dense(saved.logits.get());
  const Tensor d_logits = Tensor::empty(logits.shape(), logits.dtype(), logits.device());
  internal::backend_of(logits).cross_entropy_backward({logits, saved.targets, saved.logsumexp, saved.smoothing},
                                                      internal::take_dense(call.d_outputs[0]), saved.factor, d_logits);
  return {d_logits};
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  internal::check_rows(kCrossEntropy, "logits", logits);
  check(options.label_smoothing >= 0 && options.label_smoothing <= 1, kCrossEntropy, ": label_smoothing is ",
        options.label_smoothing, ", expected 0 to 1");
  const std::vector<std::int64_t> values = read_targets(logits, targets, options.ignore_index);
  CrossEntropyRows rows;
  rows.targets = Tensor::from(values, {static_cast<std::int64_t>(values.size())}).to(logits.device());
  rows.logits = internal::dense(logits);
  rows.logsumexp = Tensor::empty(rows.targets.shape(), internal::statistics_dtype(logits.dtype()), logits.device());
  rows.smoothing = options.label_smoothing;
  double factor = 1;
  if (options.reduction == Reduction::mean) {
    const auto counted = std::count_if(values.begin(), values.end(), [](std::int64_t value) { return value >= 0; });
    factor = 1.0 / static_cast<double>(counted);  // infinite for none: 0 * infinity is the NaN of 0 / 0
  }
  const bool per_row = options.reduction == Reduction::none;
  Tensor loss = Tensor::empty(per_row ? targets.shape() : Shape{}, rows.logsumexp.dtype(), logits.device());
  internal::backend_of(logits).cross_entropy(rows, factor, per_row, loss);
  if (internal::needs_gradient(logits)) {
    CrossEntropySaved saved = {Saved(kCrossEntropy, logits), rows.targets, rows.logsumexp, rows.smoothing, factor};
    internal::record(kCrossEntropy, {logits}, {loss},
                     [saved = std::move(saved)](BackwardCall& call) { return cross_entropy_backward(saved, call); });
  }
  return loss;
}

}  // namespace headway::inline v0
