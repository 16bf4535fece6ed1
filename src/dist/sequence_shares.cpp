// Which tokens of a sequence each rank holds.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "headway/autograd.h"
#include "headway/sequence_parallel.h"

namespace headway::inline v0 {
namespace {

using internal::check;

// Appends a range, joined to the one before it where they touch; an empty one is left out.
void append_range(std::vector<TokenRange>& ranges, TokenRange range) {
  if (range.size() == 0) return;
  if (!ranges.empty() && ranges.back().end == range.begin) {
    ranges.back().end = range.end;
  } else {
    ranges.push_back(range);
  }
}

// The length of the sequence that the ranges cover; throws where they leave out a token or hold one twice.
std::int64_t covered_length(const std::vector<std::vector<TokenRange>>& ranges) {
  std::vector<std::pair<TokenRange, std::size_t>> all;
  for (std::size_t rank = 0; rank < ranges.size(); ++rank) {
    for (const TokenRange& range : ranges[rank]) {
      check(range.begin >= 0 && range.begin <= range.end, "SequenceShares: rank ", rank, " has the range ", range.begin,
            " to ", range.end, ", expected 0 <= begin <= end");
      if (range.size() > 0) all.emplace_back(range, rank);
    }
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first.begin < b.first.begin; });
  std::int64_t length = 0;
  for (const auto& [range, rank] : all) {
    check(range.begin >= length, "SequenceShares: token ", range.begin, " is held twice, once by rank ", rank);
    check(range.begin == length, "SequenceShares: no rank holds token ", length);
    length = range.end;
  }
  return length;
}

}  // namespace

SequenceShares::SequenceShares(std::int64_t length, int ranks, SequenceLayout layout, std::int64_t multiple)
    : length_(length) {
  check(length >= 0, "SequenceShares: length is ", length, ", expected 0 or more");
  check(ranks >= 1, "SequenceShares: ranks is ", ranks, ", expected 1 or more");
  check(multiple >= 1, "SequenceShares: multiple is ", multiple, ", expected 1 or more");
  const int parts = layout == SequenceLayout::zigzag ? 2 * ranks : ranks;
  const std::int64_t units = length / multiple + (length % multiple != 0 ? 1 : 0);
  std::vector<TokenRange> cut;
  std::int64_t unit = 0;
  for (const std::int64_t count : Communicator::even_counts(units, parts)) {
    const auto token = [&](std::int64_t at) { return at >= units ? length : at * multiple; };
    cut.push_back({token(unit), token(unit + count)});
    unit += count;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<TokenRange>& own = ranges_.emplace_back();
    append_range(own, cut[static_cast<std::size_t>(rank)]);
    if (layout == SequenceLayout::zigzag) append_range(own, cut[static_cast<std::size_t>(parts - 1 - rank)]);
  }
}

SequenceShares::SequenceShares(const std::vector<std::vector<TokenRange>>& ranges) {
  check(!ranges.empty(), "SequenceShares: ranges are of no rank, expected one list for each");
  length_ = covered_length(ranges);
  for (const std::vector<TokenRange>& given : ranges) {
    std::vector<TokenRange>& own = ranges_.emplace_back();
    for (const TokenRange& range : given) append_range(own, range);
  }
}

const std::vector<TokenRange>& SequenceShares::of(int rank) const {
  check(rank >= 0 && rank < ranks(), "SequenceShares: rank is ", rank, ", expected 0 to ", ranks() - 1);
  return ranges_[static_cast<std::size_t>(rank)];
}

std::int64_t SequenceShares::size(int rank) const {
  std::int64_t count = 0;
  for (const TokenRange& range : of(rank)) count += range.size();
  return count;
}

Tensor SequenceShares::take(const Tensor& whole, int rank, int dim) const {
  check(whole.size(dim) == length_, "SequenceShares::take: the tensor is ", whole, ", expected ", length_,
        " tokens in dimension ", dim);
  const NoGradGuard guard;
  Shape shape = whole.shape();
  shape[dim] = size(rank);
  Tensor share = Tensor::empty(shape, whole.dtype(), whole.device());
  std::int64_t row = 0;
  for (const TokenRange& range : of(rank)) {
    share.slice(dim, row, row + range.size()).copy_from(whole.slice(dim, range.begin, range.end).detach());
    row += range.size();
  }
  return share;
}

Tensor SequenceShares::gather(const Tensor& share, int dim, const Communicator& ranks) const {
  check(ranks.size() == this->ranks(), "SequenceShares::gather: ranks are ", ranks.size(), ", expected ",
        this->ranks());
  check(share.size(dim) == size(ranks.rank()), "SequenceShares::gather: the tensor is ", share, ", expected ",
        size(ranks.rank()), " tokens in dimension ", dim);
  const NoGradGuard guard;
  std::vector<std::int64_t> counts;
  counts.reserve(static_cast<std::size_t>(this->ranks()));
  for (int rank = 0; rank < this->ranks(); ++rank) counts.push_back(size(rank));
  const Tensor by_rank = ranks.all_gather(share.detach().transpose(0, dim).contiguous(), counts).transpose(0, dim);
  Tensor whole = Tensor::empty(by_rank.shape(), share.dtype(), share.device());
  std::int64_t row = 0;
  for (const std::vector<TokenRange>& own : ranges_) {
    for (const TokenRange& range : own) {
      whole.slice(dim, range.begin, range.end).copy_from(by_rank.slice(dim, row, row + range.size()));
      row += range.size();
    }
  }
  return whole;
}

Tensor SequenceShares::positions(int rank) const {
  std::vector<std::int64_t> all;
  all.reserve(static_cast<std::size_t>(size(rank)));
  for (const TokenRange& range : of(rank)) {
    for (std::int64_t token = range.begin; token < range.end; ++token) all.push_back(token);
  }
  return Tensor::from(all, {std::ssize(all)});
}

}  // namespace headway::inline v0
