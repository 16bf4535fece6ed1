#include "dist/sequence_guard.h"

#include "base/check.h"
#include "core/random.h"

namespace headway::inline v0 {
namespace {

thread_local const SequenceParallelGuard* innermost = nullptr;

}  // namespace

SequenceParallelGuard::SequenceParallelGuard(const Communicator& ranks, SequenceLayout layout, SequenceMethod method)
    : ranks_(ranks), layout_(layout), method_(method), outer_(innermost) {
  innermost = this;
}

SequenceParallelGuard::~SequenceParallelGuard() { innermost = outer_; }

const SequenceParallelGuard* SequenceParallelGuard::current() {
  return innermost && !innermost->ranks().is_alone() ? innermost : nullptr;
}

namespace internal {

std::int64_t whole_length(const char* function, const SequenceParallelGuard& guard, std::int64_t own) {
  const Tensor lengths = guard.ranks().all_gather(Tensor::from({own}, {1}));
  std::int64_t whole = 0;
  for (int rank = 0; rank < guard.ranks().size(); ++rank) whole += lengths.data<std::int64_t>()[rank];
  const SequenceShares shares = guard.shares(whole);
  for (int rank = 0; rank < guard.ranks().size(); ++rank) {
    check(lengths.data<std::int64_t>()[rank] == shares.size(rank), function, ": rank ", rank, " has ",
          lengths.data<std::int64_t>()[rank], " of a sequence's ", whole, " tokens, expected ", shares.size(rank),
          " as the SequenceParallelGuard cuts it");
  }
  return whole;
}

std::uint64_t seed_of_rank(std::uint64_t seed) {
  const SequenceParallelGuard* guard = SequenceParallelGuard::current();
  if (!guard) return seed;
  // The last word keeps these apart from other draws under the same seed.
  const auto words =
      philox4x32_7({static_cast<std::uint32_t>(guard->ranks().rank()), 0, 0, 0x5E9ECA7E}, philox_key(seed));
  return std::uint64_t{words[0]} << 32 | words[1];
}

void check_not_cut(const char* function, const char* what) {
  check(SequenceParallelGuard::current() == nullptr, function, ": ", what,
        " cannot be cut over the ranks of a SequenceParallelGuard");
}

}  // namespace internal
}  // namespace headway::inline v0
