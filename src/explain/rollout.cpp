// Attention rolled out over layers, and averages over heads and layers.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "explain/record.h"
#include "headway/attention_view.h"
#include "headway/autograd.h"
#include "headway/ops.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// Adds one layer's heads to `sum`: (queries, keys).
void add_heads(const AttentionPart& part, std::int64_t layer, std::vector<double>& sum) {
  const Tensor weights = dense_layer(part, layer);  // (heads, queries, keys)
  const float* head = weights.data<float>();
  for (std::int64_t h = 0; h < weights.size(0); ++h) {
    for (double& total : sum) total += *head++;
  }
}

// first * a + second * b, element by element.
Tensor combine(const Tensor& first, float a, const Tensor& second, float b) {
  Tensor result = Tensor::empty(first.shape());
  const float* x = first.data<float>();
  const float* y = second.data<float>();
  float* out = result.data<float>();
  for (std::int64_t i = 0; i < first.element_count(); ++i) out[i] = x[i] * a + y[i] * b;
  return result;
}

Tensor identity(std::int64_t size) {
  Tensor result = Tensor::zeros({size, size});
  for (std::int64_t i = 0; i < size; ++i) result.data<float>()[i * size + i] = 1.0F;
  return result;
}

// Makes each row sum to 1; a row of zeros stays.
void normalize_rows(Tensor& matrix) {
  const std::int64_t rows = matrix.size(0), columns = matrix.size(1);
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = matrix.data<float>() + r * columns;
    double sum = 0.0;
    for (std::int64_t c = 0; c < columns; ++c) sum += row[c];
    if (sum <= 0.0) continue;
    for (std::int64_t c = 0; c < columns; ++c) row[c] = static_cast<float>(row[c] / sum);
  }
}

void check_square(const AttentionPart& part) {
  check(query_count(part) == key_count(part), "attention_rollout: part \"", part.name, "\" has ", query_count(part),
        " queries and ", key_count(part), " keys, expected a self-attention, whose numbers are equal");
}

}  // namespace
}  // namespace internal

Tensor attention_mean(const AttentionPart& part, std::int64_t layer) {
  using namespace internal;
  check_part("attention_mean", part);
  const auto layers = static_cast<std::int64_t>(part.layers.size());
  check(layer >= -1 && layer < layers, "attention_mean: layer is ", layer, ", expected 0 to ", layers - 1,
        ", or -1 for all of them");
  std::vector<double> sum(part.queries.size() * part.keys.size(), 0.0);  // (queries, keys)
  for (std::int64_t l = 0; l < layers; ++l) {
    if (layer == -1 || layer == l) add_heads(part, l, sum);
  }
  const double count = static_cast<double>(head_count(part) * (layer == -1 ? layers : 1));
  Tensor mean = Tensor::empty({query_count(part), key_count(part)});
  for (std::size_t i = 0; i < sum.size(); ++i) mean.data<float>()[i] = static_cast<float>(sum[i] / count);
  return mean;
}

Tensor attention_rollout(const AttentionPart& part) {
  using namespace internal;
  check_part("attention_rollout", part);
  check_square(part);
  const NoGradGuard no_grad;
  Tensor rolled = identity(query_count(part));
  for (std::size_t layer = 0; layer < part.layers.size(); ++layer) {
    const Tensor mean = attention_mean(part, static_cast<std::int64_t>(layer));
    rolled = combine(matmul(mean, rolled), 0.5F, rolled, 0.5F);  // (A + 1) / 2 of the layers below
    normalize_rows(rolled);
  }
  return rolled;
}

Tensor attention_rollout(const AttentionRecord& record) {
  using namespace internal;
  constexpr const char* kName = "attention_rollout";
  check_record(kName, record);
  const AttentionPart& encoder = part_named(kName, record, "encoder");
  const AttentionPart& decoder = part_named(kName, record, "decoder");
  const AttentionPart& cross = part_named(kName, record, "cross");
  check_square(decoder);
  check(decoder.layers.size() == cross.layers.size() && query_count(decoder) == query_count(cross) &&
            key_count(cross) == query_count(encoder),
        kName, ": the parts decoder, cross and encoder do not fit, expected one translation's");

  const NoGradGuard no_grad;
  const Tensor memory = attention_rollout(encoder);                       // (source, source)
  Tensor rolled = Tensor::zeros({query_count(cross), key_count(cross)});  // (target, source)
  for (std::size_t layer = 0; layer < cross.layers.size(); ++layer) {
    const auto index = static_cast<std::int64_t>(layer);
    rolled = combine(matmul(attention_mean(decoder, index), rolled), 0.5F, rolled, 0.5F);
    rolled = combine(matmul(attention_mean(cross, index), memory), 0.5F, rolled, 0.5F);
  }
  normalize_rows(rolled);
  return rolled;
}

namespace internal {

Tensor rollout_of(const AttentionRecord& record, const AttentionPart& part) {
  if (part.name != "cross") return query_count(part) == key_count(part) ? attention_rollout(part) : Tensor();
  const auto has = [&](const char* name) {
    return std::any_of(record.parts.begin(), record.parts.end(), [&](const auto& one) { return one.name == name; });
  };
  return has("encoder") && has("decoder") ? attention_rollout(record) : Tensor();
}

}  // namespace internal
}  // namespace headway::inline v0
