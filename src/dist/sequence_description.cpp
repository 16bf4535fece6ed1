// What a rank tells the others about its arguments.
#include <sstream>

#include "base/check.h"
#include "base/checksum.h"
#include "core/autograd.h"
#include "dist/sequence_call.h"

namespace headway::inline v0::internal {
namespace {

// Values that all ranks must have: as they are where they are few, else their number and a checksum.
std::string text_of_values(const Tensor& tensor) {
  if (!tensor.defined()) return "none";
  constexpr std::size_t kFew = 8;
  const std::vector<double> values = tensor.to_vector();
  std::ostringstream text;
  text.precision(17);
  for (const double value : values) text << value << ' ';
  const std::string all = text.str();
  if (values.size() <= kFew) return tensor.describe() + " " + all;
  return tensor.describe() + " with the checksum " + xxh64_text(all);
}

std::string text_of_limit(const std::optional<std::int64_t>& limit) { return limit ? std::to_string(*limit) : "none"; }

std::string text_of_number(const std::optional<double>& number) {
  if (!number) return "none";
  std::ostringstream text;
  text.precision(17);
  text << *number;
  return text.str();
}

// A mask's or bias's shape, without its rows.
std::string text_of_plane(const Tensor& plane) {
  if (!plane.defined()) return "none";
  Shape shape = plane.shape();
  std::string text = std::string(dtype_name(plane.dtype()));
  for (int i = 0; i < shape.rank(); ++i) {
    text += i == 0 ? "[" : ", ";
    text += i == shape.rank() - 2 ? "rows" : std::to_string(shape[i]);
    if (i != shape.rank() - 2 && shape[i] > 1 && plane.stride(i) == 0) text += " times the same";
  }
  return text + "]";
}

std::string text_of_shares(const SequenceShares& shares) {
  if (!shares.defined()) return "not given";
  std::string text;
  for (int rank = 0; rank < shares.ranks(); ++rank) {
    for (const TokenRange& range : shares.of(rank)) {
      text += std::to_string(range.begin) + "-" + std::to_string(range.end) + " ";
    }
    text += "| ";
  }
  constexpr std::size_t kLong = 100;
  return text.size() < kLong ? text : "checksum " + xxh64_text(text);
}

class Lines {
 public:
  template <typename Value>
  void add(std::string_view name, const Value& value) {
    text_ << name << '\t' << value << '\n';
  }
  void add_own(std::string_view name, std::int64_t value) { text_ << '#' << name << '\t' << value << '\n'; }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

void describe_tensors(std::string_view function, const Tensor& query, const Tensor& key, const Tensor& value,
                      Lines& lines) {
  const auto add = [&](std::string_view name, const Tensor& tensor, std::string_view form) {
    check(tensor.defined(), function, ": ", name, " is not given, expected a tensor ", form);
    check(tensor.rank() == 4, function, ": ", name, " has shape ", tensor.shape(), ", expected ", form);
    const std::string prefix(name);
    lines.add(prefix + "'s dtype", dtype_name(tensor.dtype()));
    lines.add(prefix + "'s device", tensor.device().is_cpu() ? "cpu" : "cuda");
    lines.add(prefix + "'s batch", tensor.size(0));
    lines.add(prefix + "'s number of heads", tensor.size(1));
    lines.add(prefix + "'s last dimension", tensor.size(3));
  };
  add("query", query, "[batch, heads, query_length, head_dim]");
  add("key", key, "[batch, kv_heads, key_length, head_dim]");
  add("value", value, "[batch, kv_heads, key_length, value_dim]");
  check(key.size(2) == value.size(2), function, ": value has length ", value.size(2), ", expected the key's ",
        key.size(2));
  lines.add_own("query_length", query.size(2));
  lines.add_own("key_length", key.size(2));
}

void describe_options(const AttentionOptions& options, Lines& lines) {
  lines.add("causal", static_cast<int>(options.causal));
  lines.add("query_offset", text_of_values(options.query_offset.tensor()));
  lines.add("window.left", text_of_limit(options.window.left));
  lines.add("window.right", text_of_limit(options.window.right));
  lines.add("mask", text_of_plane(options.mask.tensor()));
  lines.add("bias", text_of_plane(options.bias));
  lines.add("key_lengths", text_of_values(options.key_lengths.tensor()));
  lines.add("scale", text_of_number(options.scale));
  lines.add("softcap", text_of_number(options.softcap));
  lines.add("alibi_slopes", text_of_values(options.alibi_slopes));
  lines.add("sinks", text_of_values(options.sinks));
  lines.add("cu_query_lengths", text_of_values(options.cu_query_lengths.tensor()));
  lines.add("cu_key_lengths", text_of_values(options.cu_key_lengths.tensor()));
  lines.add("dropout", text_of_number(options.dropout));
  lines.add("seed", options.dropout > 0 ? options.seed : 0);
  lines.add("weights", static_cast<int>(options.weights));
  lines.add("weights_of", static_cast<int>(options.weights_of));
  const auto rows = [](const Tensor& plane) { return !plane.defined() ? 0 : plane.rank() < 2 ? 1 : plane.size(-2); };
  lines.add_own("mask_rows", rows(options.mask.tensor()));
  lines.add_own("bias_rows", rows(options.bias));
}

}  // namespace

std::string describe_arguments(std::string_view function, const Tensor& query, const Tensor& key, const Tensor& value,
                               const AttentionOptions& options, const SequenceParallelOptions& parallel) {
  Lines lines;
  describe_tensors(function, query, key, value, lines);
  describe_options(options, lines);
  lines.add("layout", static_cast<int>(parallel.layout));
  lines.add("method", static_cast<int>(parallel.method));
  lines.add("query_shares", text_of_shares(parallel.query_shares));
  lines.add("key_shares", text_of_shares(parallel.key_shares));
  std::string wanted;
  for (const Tensor* tensor : {&query, &key, &value, &options.bias, &options.sinks}) {
    wanted += needs_gradient(*tensor) ? '1' : '0';
  }
  lines.add("which of query, key, value, bias and sinks require gradients", wanted);
  return lines.text();
}

}  // namespace headway::inline v0::internal
