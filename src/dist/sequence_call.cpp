#include "dist/sequence_call.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "dist/sequence_pieces.h"
#include "headway/autograd.h"
#include "ops/attention_checks.h"

namespace headway::inline v0::internal {
namespace {

constexpr char kFailed = '!';  // begins the text of a rank whose arguments are wrong

struct RankArguments {
  std::vector<std::pair<std::string, std::string>> same;  // in order
  std::map<std::string, std::int64_t> own;
};

RankArguments read_arguments(const std::string& text) {
  RankArguments result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t tab = text.find('\t', at), end = text.find('\n', tab);
    const std::string name = text.substr(at, tab - at), value = text.substr(tab + 1, end - tab - 1);
    if (name.front() == '#') {
      result.own[name.substr(1)] = std::stoll(value);
    } else {
      result.same.emplace_back(name, value);
    }
    at = end + 1;
  }
  return result;
}

// Throws where a rank's arguments are wrong.
void check_not_failed(const std::vector<std::string>& texts) {
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank].empty() && texts[rank].front() == kFailed) fail("rank ", rank, ": ", texts[rank].substr(1));
  }
}

// The arguments of all ranks; throws where one has failed, or differs from rank 0.
std::vector<RankArguments> compare_arguments(std::string_view function, const std::vector<std::string>& texts) {
  std::vector<RankArguments> all;
  check_not_failed(texts);
  for (const std::string& text : texts) all.push_back(read_arguments(text));
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    for (std::size_t i = 0; i < all[0].same.size(); ++i) {
      const auto& [name, value] = all[0].same[i];
      check(all[rank].same[i].second == value, function, ": ", name, " differs: rank ", rank, " has ",
            all[rank].same[i].second, ", rank 0 ", value);
    }
  }
  return all;
}

// The text where `make` does not throw, else what it threw, so that all ranks can throw it.
template <typename Make>
std::string text_or_failure(const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    return std::string(1, kFailed) + error.what();
  }
}

// The shares that the options give, or those that follow from the layout and the ranks' lengths.
SequenceShares find_shares(std::string_view function, std::string_view name, const SequenceShares& given,
                           SequenceLayout layout, const std::vector<std::int64_t>& lengths) {
  SequenceShares shares = given;
  const auto ranks = static_cast<int>(lengths.size());
  if (!given.defined() && layout == SequenceLayout::contiguous) {
    std::vector<std::vector<TokenRange>> ranges;
    std::int64_t begin = 0;
    for (const std::int64_t length : lengths) {
      ranges.push_back({{begin, begin + length}});
      begin += length;
    }
    shares = SequenceShares(std::move(ranges));
  } else if (!given.defined()) {
    std::int64_t length = 0;
    for (const std::int64_t own : lengths) length += own;
    shares = SequenceShares(length, ranks, layout);
  }
  check(shares.ranks() == ranks, function, ": ", name, "_shares are of ", shares.ranks(), " ranks, expected ", ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    check(shares.size(rank) == lengths[static_cast<std::size_t>(rank)], function, ": ", name, " has ",
          lengths[static_cast<std::size_t>(rank)], " tokens on rank ", rank, ", expected ", shares.size(rank),
          ", its share of ", shares.length());
  }
  return shares;
}

// Whether the ranks' planes have a row for each query. Where one has several rows, all have; where every rank has one
// query at most, a single row is its own.
bool have_rows(const std::vector<RankArguments>& all, const std::string& name) {
  bool several = false, few_queries = true;
  for (const RankArguments& arguments : all) {
    several = several || arguments.own.at(name) > 1;
    few_queries = few_queries && arguments.own.at("query_length") <= 1;
  }
  return several || few_queries;
}

std::vector<std::int64_t> lengths_of(const std::vector<RankArguments>& all, const std::string& name) {
  std::vector<std::int64_t> lengths;
  for (const RankArguments& arguments : all) lengths.push_back(arguments.own.at(name));
  return lengths;
}

std::int64_t bytes_of_rows(const AttentionProblem& problem, std::int64_t heads, std::int64_t rows, std::int64_t dim) {
  return problem.batch * heads * rows * dim * static_cast<std::int64_t>(item_size(problem.query.dtype()));
}

// A mask or bias with rows, whole.
std::int64_t bytes_of_plane(const SequenceCall& call, const Tensor& plane, bool has_rows) {
  if (!plane.defined() || !has_rows) return 0;
  // By heads each rank gets its own, else each gets all.
  const auto count = [&](int dim) { return plane.stride(dim) == 0 ? 1 : plane.size(dim); };
  const std::int64_t copies = count(1) > 1 ? 1 : call.size();
  return count(0) * count(1) * copies * call.queries.length() * count(3) *
         static_cast<std::int64_t>(item_size(plane.dtype()));
}

// Throws where this rank's mask or bias is wrong; where neither is given, whatever is wrong is wrong on all ranks.
AttentionProblem agree_on_problem(std::string_view function, const Tensor& query, const Tensor& key,
                                  const Tensor& value, const AttentionOptions& options, const Communicator& ranks,
                                  const WholeLengths& whole) {
  if (!options.mask.defined() && !options.bias.defined()) {
    return make_attention_problem(function, query, key, value, options, whole);
  }
  AttentionProblem problem;
  const std::vector<std::string> texts = ranks.all_gather(text_or_failure([&] {
    problem = make_attention_problem(function, query, key, value, options, whole);
    return std::string();
  }));
  check_not_failed(texts);
  return problem;
}

bool chooses_ulysses(std::string_view function, const SequenceCall& call, SequenceMethod method) {
  const bool possible = heads_divide(call.whole, call.size());
  if (method == SequenceMethod::automatic) return possible && ulysses_bytes(call) < ring_bytes(call);
  check(method == SequenceMethod::ring || possible, function, ": method is ulysses, but ", call.whole.heads,
        " query heads and ", call.whole.kv_heads, " key heads cannot be dealt out evenly to ", call.size(), " ranks");
  return method == SequenceMethod::ulysses;
}

}  // namespace

SequenceCall make_sequence_call(std::string_view function, const Tensor& query, const Tensor& key, const Tensor& value,
                                const AttentionOptions& options, const Communicator& ranks,
                                const SequenceParallelOptions& parallel) {
  const std::vector<RankArguments> all = compare_arguments(function, ranks.all_gather(text_or_failure([&] {
    return describe_arguments(function, query, key, value, options, parallel);
  })));
  const NoGradGuard guard;
  SequenceCall call;
  call.ranks = ranks;
  call.queries =
      find_shares(function, "query", parallel.query_shares, parallel.layout, lengths_of(all, "query_length"));
  call.keys = find_shares(function, "key", parallel.key_shares, parallel.layout, lengths_of(all, "key_length"));
  call.whole =
      agree_on_problem(function, query, key, value, options, ranks, {call.queries.length(), call.keys.length()});
  call.has_whole_rows = options.weights != Weights::none;
  call.mask_has_rows = options.mask.defined() && have_rows(all, "mask_rows");
  call.bias_has_rows = options.bias.defined() && have_rows(all, "bias_rows");
  call.by_ulysses = chooses_ulysses(function, call, parallel.method);
  return call;
}

bool heads_divide(const AttentionProblem& problem, int ranks) {
  if (problem.heads == 0 || problem.heads % ranks != 0) return false;
  return problem.kv_heads % ranks == 0 || ranks % problem.kv_heads == 0;
}

bool needs_share(const SequenceCall& call, int rank, int owner) {
  if (call.keys.size(owner) == 0) return false;
  if (call.has_whole_rows) return true;
  const std::vector<SequencePiece> pieces = cut_pieces(call.queries.of(rank), call.keys.of(owner));
  return std::any_of(pieces.begin(), pieces.end(),
                     [&](const SequencePiece& piece) { return has_visible_scores(call.whole, piece); });
}

int share_hops(const SequenceCall& call, int owner) {
  for (int hops = call.size() - 1; hops > 0; --hops) {
    if (needs_share(call, (owner + hops) % call.size(), owner)) return hops;
  }
  return 0;
}

std::int64_t ring_bytes(const SequenceCall& call) {
  const AttentionProblem& problem = call.whole;
  std::int64_t bytes = 0;
  for (int owner = 0; owner < call.size(); ++owner) {
    bytes += share_hops(call, owner) *
             bytes_of_rows(problem, problem.kv_heads, call.keys.size(owner), problem.head_dim + problem.value_dim);
  }
  return bytes;
}

std::int64_t ulysses_bytes(const SequenceCall& call) {
  const AttentionProblem& p = call.whole;
  const std::int64_t queries = call.queries.length(), keys = call.keys.length();
  const std::int64_t heads_of_keys = std::max<std::int64_t>(p.kv_heads, call.size());
  std::int64_t bytes = bytes_of_rows(p, p.heads, queries, p.head_dim + p.value_dim) +
                       bytes_of_rows(p, heads_of_keys, keys, p.head_dim + p.value_dim) +
                       p.batch * p.heads * queries * (p.query.dtype() == DType::float64 ? 8 : 4);
  if (p.weights == Weights::per_head) bytes += bytes_of_rows(p, p.heads, queries, keys);
  if (p.weights == Weights::mean) bytes += bytes_of_rows(p, call.size(), queries, keys);
  bytes += bytes_of_plane(call, p.mask, call.mask_has_rows) + bytes_of_plane(call, p.bias, call.bias_has_rows);
  return bytes / call.size() * (call.size() - 1);
}

}  // namespace headway::inline v0::internal
