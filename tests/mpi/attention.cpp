// Attention over the ranks of MPI, over the whole list of cases, ring and Ulysses, forward and gradients: every rank's
// share has the bits that it has among threads as ranks, which dist_ring_cases_test holds against the reference.
#include <gtest/gtest.h>

#include <vector>

#include "support/bits.h"
#include "support/sequence_ranks.h"

namespace headway_test {
namespace {

// What a rank has of a case.
Named results_of(const AttentionBackward& share) {
  const auto gradient = [](const Tensor& tensor) { return tensor.defined() ? tensor.grad() : Tensor(); };
  return named(share.forward, {.query = share.query.grad(),
                               .key = share.key.grad(),
                               .value = share.value.grad(),
                               .bias = gradient(share.options.bias),
                               .sinks = gradient(share.options.sinks)});
}

void expect_bits_of_threads(const Case& c, const AttentionBackward& p, const Cut& cut, const Communicator& ranks) {
  std::vector<AttentionBackward> threads(static_cast<std::size_t>(cut.ranks));
  headway::run_ranks(cut.ranks, [&](const Communicator& local) {
    threads[static_cast<std::size_t>(local.rank())] = share_over_ranks(c, p, cut, local);
  });
  expect_same_bits(results_of(share_over_ranks(c, p, cut, ranks)),
                   results_of(threads[static_cast<std::size_t>(ranks.rank())]));
}

TEST(AttentionOverMpi, HasTheBitsOfThreads) {
  const Communicator ranks = Communicator::mpi();
  ASSERT_GT(ranks.size(), 1);
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(describe(c));
    const AttentionBackward p = build(c);
    const SequenceLayout layout = c.seed % 2 == 0 ? SequenceLayout::zigzag : SequenceLayout::contiguous;
    expect_bits_of_threads(c, p, cut_evenly(p, ranks.size(), layout, SequenceMethod::ring), ranks);
    if (!divides(c, ranks.size())) continue;
    expect_bits_of_threads(c, p, cut_evenly(p, ranks.size(), layout, SequenceMethod::ulysses), ranks);
  }
}

}  // namespace
}  // namespace headway_test
