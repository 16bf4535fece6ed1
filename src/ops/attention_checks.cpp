#include "ops/attention_checks.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace headway::inline v0::internal {
namespace {

void check_inputs(std::string_view function, const Tensor& query, const Tensor& key, const Tensor& value) {
  const auto check_tensor = [&](const Tensor& tensor, std::string_view name, std::string_view shape) {
    check(tensor.defined(), function, ": ", name, " is not given, expected a tensor ", shape);
    check(tensor.rank() == 4, function, ": ", name, " has shape ", tensor.shape(), ", expected ", shape);
    check(is_floating(tensor.dtype()), function, ": ", name, " has dtype ", tensor.dtype(),
          ", expected float32, float64, bfloat16 or float16");
    check(tensor.dtype() == query.dtype(), function, ": ", name, " has dtype ", tensor.dtype(),
          ", expected the query's ", query.dtype());
    check_device(function, name, tensor, query);
  };
  check_tensor(query, "query", "[batch, heads, query_length, head_dim]");
  check_tensor(key, "key", "[batch, kv_heads, key_length, head_dim]");
  check_tensor(value, "value", "[batch, kv_heads, key_length, value_dim]");
  check(key.size(0) == query.size(0), function, ": key has batch ", key.size(0), ", expected the query's ",
        query.size(0));
  check(value.size(0) == query.size(0), function, ": value has batch ", value.size(0), ", expected the query's ",
        query.size(0));
  check(value.size(1) == key.size(1), function, ": value has ", value.size(1), " heads, expected the key's ",
        key.size(1));
  check(key.size(1) > 0 ? query.size(1) % key.size(1) == 0 : query.size(1) == 0, function, ": key has ", key.size(1),
        " heads, which does not divide the query's ", query.size(1));
  check(key.size(3) == query.size(3), function, ": key has head_dim ", key.size(3), ", expected the query's ",
        query.size(3));
  check(query.size(3) >= 1, function, ": query has head_dim 0, expected at least 1");
  check(value.size(2) == key.size(2), function, ": value has length ", value.size(2), ", expected the key's ",
        key.size(2));
}

// The integers of an option, one for each of `count` entries, or one for all where `repeat` allows it.
std::vector<std::int64_t> read_integers(std::string_view function, std::string_view name, const Tensor& tensor,
                                        std::int64_t count, bool repeat) {
  check(tensor.dtype() == DType::int32 || tensor.dtype() == DType::int64, function, ": ", name, " has dtype ",
        tensor.dtype(), ", expected int32 or int64");
  const bool single = repeat && tensor.element_count() == 1 && tensor.rank() <= 1;
  check(single || (tensor.rank() == 1 && tensor.size(0) == count), function, ": ", name, " has shape ", tensor.shape(),
        ", expected ", repeat ? "one number or [" : "[", count, "]");
  const Tensor wide = tensor.to(Device::cpu()).to(DType::int64).contiguous();
  const std::int64_t* values = wide.data<std::int64_t>();
  return std::vector<std::int64_t>(values, values + (single ? 1 : count));
}

// Cumulative lengths: start at 0, never fall, end at `total`.
std::vector<std::int64_t> read_cumulative(std::string_view function, std::string_view name,
                                          const CumulativeLengths& option, std::int64_t total) {
  const Tensor& tensor = option.tensor();
  check(tensor.rank() == 1 && tensor.size(0) >= 1, function, ": ", name, " has shape ", tensor.shape(),
        ", expected [sequences + 1]");
  const auto values = read_integers(function, name, tensor, tensor.size(0), false);
  check(values.front() == 0, function, ": ", name, " starts at ", values.front(), ", expected 0");
  for (std::size_t i = 1; i < values.size(); ++i) {
    check(values[i] >= values[i - 1], function, ": ", name, " falls from ", values[i - 1], " to ", values[i],
          " at index ", i, ", expected lengths that are not negative");
  }
  check(values.back() == total, function, ": ", name, " ends at ", values.back(), ", expected ", total,
        ", the rows of the tensor");
  return values;
}

// Batch entries, or sequences of a packed batch, whether they are listed or not.
std::int64_t sequence_count(const AttentionProblem& problem) {
  return problem.packed ? static_cast<std::int64_t>(problem.sequences.size()) : problem.batch;
}

// The integer of one entry.
std::int64_t of_entry(const std::vector<std::int64_t>& values, std::size_t entry) {
  return values.size() == 1 ? values.front() : values[entry];
}

// The batch entries, or the sequences of a packed batch. Without queries there is nothing to compute: a tensor without
// elements may have any batch, so its entries are counted but not listed.
void make_sequences(std::string_view function, const AttentionOptions& options, const WholeLengths& whole,
                    AttentionProblem& problem) {
  problem.packed = options.cu_query_lengths.defined() || options.cu_key_lengths.defined();
  if (problem.packed) {
    check(options.cu_query_lengths.defined() && options.cu_key_lengths.defined(), function,
          ": cu_query_lengths and cu_key_lengths go together, but only one of them was given");
    check(problem.batch == 1, function, ": query has batch ", problem.batch,
          ", expected 1 with cu_query_lengths, which packs all sequences into one entry");
    const auto queries = read_cumulative(function, "cu_query_lengths", options.cu_query_lengths, whole.query);
    const auto keys = read_cumulative(function, "cu_key_lengths", options.cu_key_lengths, whole.key);
    check(queries.size() == keys.size(), function, ": cu_key_lengths has ", keys.size(),
          " entries, expected as many as cu_query_lengths, ", queries.size());
    for (std::size_t i = 0; i + 1 < queries.size(); ++i) {
      problem.sequences.push_back({.batch = 0,
                                   .query_begin = queries[i],
                                   .query_length = queries[i + 1] - queries[i],
                                   .key_begin = keys[i],
                                   .key_length = keys[i + 1] - keys[i]});
    }
  } else if (problem.heads > 0 && whole.query > 0) {
    for (std::int64_t b = 0; b < problem.batch; ++b) {
      problem.sequences.push_back({.batch = b, .query_length = whole.query, .key_length = whole.key});
    }
  }
  const std::int64_t count = sequence_count(problem);
  for (Sequence& sequence : problem.sequences) sequence.key_count = sequence.key_length;
  if (options.key_lengths.defined()) {
    const auto lengths = read_integers(function, "key_lengths", options.key_lengths.tensor(), count, true);
    const auto check_length = [&](std::size_t i, std::int64_t length, std::int64_t most) {
      check(length >= 0 && length <= most, function, ": key_lengths[", i, "] is ", length, ", expected 0 to ", most);
    };
    for (std::size_t i = 0; i < lengths.size() && !problem.packed; ++i) check_length(i, lengths[i], whole.key);
    for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
      Sequence& sequence = problem.sequences[i];
      sequence.key_count = of_entry(lengths, i);
      check_length(i, sequence.key_count, sequence.key_length);
    }
  }
  for (Sequence& sequence : problem.sequences) {
    if (options.causal == Causal::bottom_right) sequence.query_offset = sequence.key_count - sequence.query_length;
  }
  if (options.query_offset.defined()) {
    const auto offsets = read_integers(function, "query_offset", options.query_offset.tensor(), count, true);
    constexpr std::int64_t kLimit = std::int64_t{1} << 60;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      check(offsets[i] >= -kLimit && offsets[i] <= kLimit, function, ": query_offset[", i, "] is ", offsets[i],
            ", expected at most 2^60 in size");
    }
    for (std::size_t i = 0; i < problem.sequences.size(); ++i) {
      problem.sequences[i].query_offset = of_entry(offsets, i);
    }
  }
}

// A mask or bias as a view of [batch, heads, query_length, key_length].
Tensor broadcast(std::string_view function, std::string_view name, const Tensor& tensor,
                 const AttentionProblem& problem) {
  const Shape target = {problem.batch, problem.heads, problem.query_length, problem.key_length};
  check(tensor.rank() != 3, function, ": ", name, " has shape ", tensor.shape(),
        ", expected [query_length, key_length]",
        " or four dimensions [batch, heads, query_length, key_length]: unsqueeze(1) makes them of one matrix for each "
        "batch entry, unsqueeze(0) of one for each head");
  bool fits = tensor.rank() <= 4;
  for (int i = 1; fits && i <= tensor.rank(); ++i) fits = tensor.size(-i) == 1 || tensor.size(-i) == target[-i];
  check(fits, function, ": ", name, " has shape ", tensor.shape(), ", which does not broadcast to [batch, heads, ",
        "query_length, key_length] = ", target);
  return tensor.expand(target);
}

void read_reach(std::string_view function, std::string_view name, const std::optional<std::int64_t>& reach,
                std::optional<std::int64_t>& target) {
  if (!reach) return;
  check(*reach >= 0, function, ": ", name, " is ", *reach, ", expected 0 or more, or nothing for no limit");
  constexpr std::int64_t kFar = std::int64_t{1} << 60;  // beyond every length: the same as no limit
  if (*reach < kFar) target = *reach;
}

// A floating tensor [heads] or, where allowed, [sequences, heads], as doubles.
std::vector<double> read_per_head(std::string_view function, std::string_view name, const Tensor& tensor,
                                  const AttentionProblem& problem, bool per_sequence) {
  check(is_floating(tensor.dtype()), function, ": ", name, " has dtype ", tensor.dtype(),
        ", expected a floating dtype");
  const std::int64_t count = sequence_count(problem);
  const bool by_head = tensor.rank() == 1 && tensor.size(0) == problem.heads;
  const bool by_both = per_sequence && tensor.rank() == 2 && tensor.size(0) == count && tensor.size(1) == problem.heads;
  check(by_head || by_both, function, ": ", name, " has shape ", tensor.shape(), ", expected [", problem.heads, "]",
        per_sequence ? " or [batch, heads]" : "");
  std::vector<double> values = tensor.to_vector();
  if (per_sequence && by_head) {
    const std::vector<double> once = values;
    values.clear();
    for (std::size_t i = 0; i < problem.sequences.size(); ++i) values.insert(values.end(), once.begin(), once.end());
  }
  return values;
}

}  // namespace

void check_device(std::string_view function, std::string_view name, const Tensor& tensor, const Tensor& query) {
  check(!tensor.defined() || tensor.device() == query.device(), function, ": ", name, " is on ",
        tensor.defined() ? tensor.device() : query.device(), ", expected the query's ", query.device());
}

Tensor empty_in_order_of(const Tensor& like, const Shape& shape, DType dtype) {
  std::vector<int> order(static_cast<std::size_t>(shape.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end() - 1, [&](int a, int b) { return like.stride(a) > like.stride(b); });
  Shape memory_shape;
  std::vector<int> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    memory_shape.push_back(shape[order[i]]);
    back[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  }
  return Tensor::empty(memory_shape, dtype, like.device()).permute(back);
}

Tensor with_contiguous_rows(const Tensor& tensor) {
  return tensor.size(-1) <= 1 || tensor.stride(-1) == 1 ? tensor : tensor.contiguous();
}

Shape weights_shape(const AttentionProblem& problem) {
  if (problem.weights == Weights::mean) return {problem.batch, problem.query_length, problem.key_length};
  return {problem.batch, problem.heads, problem.query_length, problem.key_length};
}

AttentionProblem make_attention_problem(std::string_view function, const Tensor& query, const Tensor& key,
                                        const Tensor& value, const AttentionOptions& options) {
  const auto length_of = [](const Tensor& tensor) {
    return tensor.defined() && tensor.rank() == 4 ? tensor.size(2) : std::int64_t{0};
  };
  return make_attention_problem(function, query, key, value, options, {length_of(query), length_of(key)});
}

AttentionProblem make_attention_problem(std::string_view function, const Tensor& query, const Tensor& key,
                                        const Tensor& value, const AttentionOptions& options,
                                        const WholeLengths& whole) {
  check_inputs(function, query, key, value);
  AttentionProblem problem;
  problem.query = with_contiguous_rows(query);
  problem.key = with_contiguous_rows(key);
  problem.value = with_contiguous_rows(value);
  problem.batch = query.size(0);
  problem.heads = query.size(1);
  problem.kv_heads = key.size(1);
  problem.query_length = query.size(2);
  problem.key_length = whole.key;
  problem.head_dim = query.size(3);
  problem.value_dim = value.size(3);

  problem.scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(problem.head_dim)));
  check(std::isfinite(problem.scale), function, ": scale is ", problem.scale, ", expected a finite number");
  if (options.softcap) {
    check(std::isfinite(*options.softcap) && *options.softcap > 0, function, ": softcap is ", *options.softcap,
          ", expected a finite number above 0");
    problem.softcap = *options.softcap;
  }
  check(options.dropout >= 0 && options.dropout < 1, function, ": dropout is ", options.dropout,
        ", expected at least 0 and below 1");
  if (options.dropout > 0) problem.dropout = DropoutRule::make(options.dropout, options.seed);

  read_reach(function, "window.left", options.window.left, problem.left);
  read_reach(function, "window.right", options.window.right, problem.right);
  if (options.causal != Causal::none) problem.right = 0;
  make_sequences(function, options, whole, problem);

  if (options.mask.defined()) {
    const Tensor& mask = options.mask.tensor();
    check(mask.dtype() == DType::boolean, function, ": mask has dtype ", mask.dtype(),
          ", expected boolean (a floating mask that is added is the bias)");
    problem.mask = broadcast(function, "mask", mask.to(query.device()), problem);
    problem.mask_true_keeps = options.mask.true_keeps();
  }
  if (options.bias.defined()) {
    check(is_floating(options.bias.dtype()), function, ": bias has dtype ", options.bias.dtype(),
          ", expected a floating dtype (a boolean one is the mask)");
    check_device(function, "bias", options.bias, query);
    problem.bias = broadcast(function, "bias", options.bias, problem);
  }
  if (options.alibi_slopes.defined()) {
    problem.alibi_slopes = read_per_head(function, "alibi_slopes", options.alibi_slopes, problem, true);
  }
  if (options.sinks.defined()) problem.sinks = read_per_head(function, "sinks", options.sinks, problem, false);
  problem.deterministic = options.deterministic;
  problem.weights = options.weights;
  problem.weights_of = options.weights_of;
  return problem;
}

}  // namespace headway::inline v0::internal
