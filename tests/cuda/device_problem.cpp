#include "cuda/device_problem.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "support/reference.h"

namespace headway_test {

using headway::AttentionBackward;
using headway::AttentionResult;
using headway::Device;
using headway::DType;
using headway::Mask;
using headway::Tensor;
using std::int64_t;

namespace {

// Only sizes of one may have a stride of zero.
Tensor dense_on_gpu(const Tensor& tensor) {
  if (tensor.element_count() == 0) return tensor.to(Device::cuda());
  int64_t last = 0;  // the place of the last element, counted from the first
  for (int dim = 0; dim < tensor.rank(); ++dim) last += (tensor.size(dim) - 1) * tensor.stride(dim);
  const auto bytes = static_cast<int64_t>(headway::item_size(tensor.dtype()));
  const int64_t skipped = static_cast<int64_t>(reinterpret_cast<std::uintptr_t>(tensor.raw_data()) % 64) / bytes;
  const double gap = headway::is_floating(tensor.dtype()) ? std::nan("") : 1;
  Tensor memory = Tensor::full({skipped + last + 1}, gap, tensor.dtype(), Device::cuda());
  void* first = static_cast<char*>(memory.raw_data()) + skipped * bytes;
  Tensor result = Tensor::wrap(
      first, tensor.shape(), tensor.strides(), tensor.dtype(), [memory] {}, Device::cuda());
  result.copy_from(tensor.contiguous().to(Device::cuda()));
  return result;
}

// PerEntry or CumulativeLengths.
template <typename Lengths>
void move_to_gpu(Lengths& lengths) {
  if (lengths.defined()) lengths = Lengths(lengths.tensor().to(Device::cuda()));
}

void fill_row(const Tensor& tensor, int64_t b, int64_t h, int64_t i, double value) {
  tensor.select(0, b).select(0, h).select(0, i).fill(value);
}

}  // namespace

Tensor on_gpu(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  Tensor dense = tensor.detach();
  for (int dim = 0; dim < tensor.rank(); ++dim) {
    if (tensor.stride(dim) == 0 && tensor.size(dim) > 1) dense = dense.slice(dim, 0, 1);
  }
  const Tensor moved = dense_on_gpu(dense);
  return dense.shape() == tensor.shape() ? moved : moved.expand(tensor.shape());
}

AttentionBackward on_gpu(const AttentionBackward& problem, bool small) {
  AttentionBackward p = problem;
  headway::AttentionOptions& options = p.options;
  for (Tensor* tensor : {&p.query, &p.key, &p.value, &p.d_output, &p.d_weights, &p.d_logsumexp, &options.bias}) {
    *tensor = on_gpu(*tensor);
  }
  if (!small) return p;
  options.alibi_slopes = on_gpu(options.alibi_slopes);
  options.sinks = on_gpu(options.sinks);
  if (options.mask.defined()) {
    const Tensor mask = on_gpu(options.mask.tensor());
    options.mask = options.mask.true_keeps() ? Mask::keep(mask) : Mask::drop(mask);
  }
  move_to_gpu(options.query_offset);
  move_to_gpu(options.key_lengths);
  move_to_gpu(options.cu_query_lengths);
  move_to_gpu(options.cu_key_lengths);
  return p;
}

Tensor on_cpu(const Tensor& tensor) { return tensor.defined() ? tensor.to(Device::cpu()) : tensor; }

Named on_cpu(const Named& results) {
  Named copies;
  for (const auto& [name, tensor] : results) copies.emplace_back(name, on_cpu(tensor));
  return copies;
}

void poison_memory(const std::vector<Tensor>& alike) {
  std::vector<Tensor> held = {Tensor::full({1 << 20}, std::nan(""), DType::bfloat16, Device::cuda())};
  for (const Tensor& tensor : alike) {
    if (!tensor.defined() || !headway::is_floating(tensor.dtype())) continue;
    held.push_back(Tensor::full(tensor.shape(), std::nan(""), tensor.dtype(), Device::cuda()));
  }
}

AttentionResult forward_on_gpu(const AttentionBackward& problem) {
  const AttentionBackward p = on_gpu(problem);
  poison_memory({p.query, p.d_output});
  const AttentionResult result = headway::attention(p.query, p.key, p.value, p.options);
  return {on_cpu(result.output), on_cpu(result.logsumexp), on_cpu(result.weights)};
}

Named run_on_gpu(const AttentionBackward& problem, bool small) {
  AttentionBackward p = on_gpu(problem, small);
  const DType arithmetic = p.query.dtype() == DType::float64 ? DType::float64 : DType::float32;
  const Tensor rows = p.query.rank() == 4 && p.query.size(3) > 0 ? p.query.select(3, 0) : Tensor();
  poison_memory({p.query, p.d_output, p.d_weights, rows.defined() ? rows.to(arithmetic) : rows});
  p.forward = headway::attention(p.query, p.key, p.value, p.options);
  if (p.d_weights.defined()) p.d_weights = p.d_weights.to(p.forward.weights.dtype());
  poison_memory({p.query, p.key, p.value, p.options.bias, p.options.sinks});
  return on_cpu(named(p.forward, headway::attention_backward(p)));
}

int fill_hidden_rows(AttentionBackward& p, double value) {
  AttentionBackward probe = p;
  probe.query = p.query.to(DType::float32);  // the fastest reference: what is visible depends on no number
  probe.options.weights = headway::Weights::per_head;
  probe.options.weights_of = headway::WeightsOf::masked;
  const std::vector<double> masked = reference_forward(probe).weights;  // (batch, heads, queries, keys)
  const int64_t heads = p.query.size(1), kv_heads = p.key.size(1), queries = p.query.size(2), keys = p.key.size(2);
  for (Tensor* tensor : {&p.query, &p.key, &p.value}) *tensor = tensor->clone();
  if (p.d_output.defined()) p.d_output = p.d_output.clone();
  int count = 0;
  std::vector<char> seen(static_cast<std::size_t>(p.query.size(0) * kv_heads * keys));  // (batch, kv_heads, keys)
  for (int64_t row = 0; row < p.query.size(0) * heads * queries; ++row) {
    const int64_t b = row / (heads * queries), h = row / queries % heads, i = row % queries;
    bool sees = false;
    for (int64_t j = 0; j < keys; ++j) {
      if (masked[static_cast<std::size_t>(row * keys + j)] == -std::numeric_limits<double>::infinity()) continue;
      sees = true;
      seen[static_cast<std::size_t>((b * kv_heads + h / (heads / kv_heads)) * keys + j)] = 1;
    }
    if (sees) continue;
    fill_row(p.query, b, h, i, value);
    if (p.d_output.defined()) fill_row(p.d_output, b, h, i, value);
    ++count;
  }
  for (std::size_t key = 0; key < seen.size(); ++key) {
    if (seen[key]) continue;
    const auto place = static_cast<int64_t>(key);
    for (const Tensor* tensor : {&p.key, &p.value}) {
      fill_row(*tensor, place / (kv_heads * keys), place / keys % kv_heads, place % keys, value);
    }
    ++count;
  }
  return count;
}

}  // namespace headway_test
