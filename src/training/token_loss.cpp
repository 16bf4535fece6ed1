#include "training/token_loss.h"

#include <algorithm>

#include "headway/sequence_parallel.h"

namespace headway::inline v0::internal {

BatchLoss token_loss(const Tensor& logits, const Tensor& labels, std::int64_t tokens,
                     const CrossEntropyOptions& options) {
  const SequenceParallelGuard* guard = SequenceParallelGuard::current();
  if (!guard) return {.loss = cross_entropy(logits, labels, options), .tokens = tokens};
  const int rank = guard->ranks().rank();
  const Tensor own = guard->shares(labels.size(-1)).take(labels, rank, labels.rank() - 1);
  CrossEntropyOptions summed = options;
  summed.reduction = Reduction::sum;
  const Tensor whole = labels.to(Device::cpu()).to(DType::int64).contiguous();
  const std::int64_t* label = whole.data<std::int64_t>();
  const auto ignored = std::count(label, label + whole.element_count(), options.ignore_index);
  const auto counted = static_cast<double>(std::max<std::int64_t>(whole.element_count() - ignored, 1));
  // Tokens are counted once: the first ranks have one more where they do not divide.
  const std::int64_t counts = Communicator::even_counts(tokens, guard->ranks().size())[static_cast<std::size_t>(rank)];
  return {.loss = cross_entropy(logits, own, summed) / counted, .tokens = counts};
}

}  // namespace headway::inline v0::internal
