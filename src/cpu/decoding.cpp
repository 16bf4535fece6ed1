// Steps of decoding beside attention: embeddings, products, the best tokens.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/divide.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "core/scratch.h"
#include "core/thread_pool.h"
#include "cpu/backend.h"
#include "cpu/gate.h"
#include "cpu/isa.h"
#include "cpu/quantized.h"
#include "cpu/tensor_data.h"

namespace headway::inline v0::internal::cpu {
namespace {

constexpr int kDecodingSlot = 0;

// The best tokens of one row, in ascending order of their rank.
template <typename Real>
class BestTokens {
 public:
  struct Entry {
    Real logit;
    std::int64_t token;
  };

  BestTokens(Entry* entries, std::int64_t most) : entries_(entries), most_(most) {}

  std::int64_t count() const { return count_; }
  const Entry& operator[](std::int64_t rank) const { return entries_[rank]; }
  // Whether a logit of a token that comes after all others would be taken.
  bool takes(Real logit) const {
    if (count_ < most_) return logit > -std::numeric_limits<Real>::infinity();
    return most_ > 0 && logit > entries_[count_ - 1].logit;
  }
  void add(const Entry& entry) {
    std::int64_t rank = count_ < most_ ? count_++ : count_ - 1;
    for (; rank > 0 && entries_[rank - 1].logit < entry.logit; --rank) entries_[rank] = entries_[rank - 1];
    entries_[rank] = entry;
  }

 private:
  Entry* entries_;  // (most)
  std::int64_t most_;
  std::int64_t count_ = 0;
};

template <typename T>
void top_row(const TopTask& task, std::int64_t row) {
  using Real = Sum<T>;
  const std::int64_t classes = task.logits.size(1), count = task.top.tokens.size(1);
  const std::int64_t blocks = divide_up(classes, kLogitBlock);
  using Best = BestTokens<Real>;
  const auto entries_bytes = static_cast<std::size_t>(count) * sizeof(typename Best::Entry);
  std::byte* memory = thread_scratch(kDecodingSlot, entries_bytes + static_cast<std::size_t>(blocks) * sizeof(Real));
  Best best(reinterpret_cast<typename Best::Entry*>(memory), count);
  Real* maxima = reinterpret_cast<Real*>(memory + entries_bytes);
  Real logsumexp = 0;
  const T* logits = tensor_data<const T>(task.logits) + row * classes;
  decoding_kernels().logit_row({.dtype = task.logits.dtype(),
                                .classes = classes,
                                .logits = reinterpret_cast<const std::byte*>(logits),
                                .maxima = maxima,
                                .logsumexp = &logsumexp});
  for (std::int64_t block = 0; block < blocks; ++block) {
    if (!best.takes(maxima[block])) continue;
    const std::int64_t end = std::min((block + 1) * kLogitBlock, classes);
    for (std::int64_t i = block * kLogitBlock; i < end; ++i) {
      const Real logit = convert<Real>(logits[i]);
      if (best.takes(logit) && i != task.excluded) best.add({logit, i});
    }
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const bool is_there = k < best.count();
    tensor_data<std::int64_t>(task.top.tokens)[row * count + k] = is_there ? best[k].token : -1;
    tensor_data<float>(task.top.logits)[row * count + k] =
        is_there ? static_cast<float>(best[k].logit) : -std::numeric_limits<float>::infinity();
  }
  tensor_data<float>(task.top.logsumexp)[row] = static_cast<float>(logsumexp);
}

// Of a weight of W, which has scales where it is int8, beside positions and results of T.
template <typename W, typename T>
void embed_rows(const EmbedStep& task) {
  using Real = Sum<T>;
  const std::int64_t features = task.weight.size(1);
  const bool has_positions = task.positions.defined();
  for (std::int64_t row = 0; row < task.tokens.size(0); ++row) {
    const std::int64_t token = tensor_data<const std::int64_t>(task.tokens)[row];
    const std::int64_t position = has_positions ? tensor_data<const std::int64_t>(task.position)[row] : 0;
    bool is_there = token >= 0 && token < task.weight.size(0);
    if (has_positions) is_there = is_there && position >= 0 && position < task.positions.size(0);
    T* to = tensor_data<T>(task.result) + row * features;
    if (!is_there) {
      std::fill_n(to, features, convert<T>(std::numeric_limits<Real>::quiet_NaN()));
      continue;
    }
    auto scale = static_cast<Real>(task.scale);
    if (task.scales.defined()) scale *= tensor_data<const float>(task.scales)[token];
    const W* from = tensor_data<const W>(task.weight) + token * features;
    const T* place = has_positions ? tensor_data<const T>(task.positions) + position * features : nullptr;
    for (std::int64_t i = 0; i < features; ++i) {
      const Real scaled = convert<Real>(from[i]) * scale;
      to[i] = convert<T>(place ? scaled + convert<Real>(place[i]) : scaled);
    }
  }
}

// Up to this many rows, 16-bit weights are read once for each and no tile is filled.
constexpr std::int64_t kFewRows = 2;

// y = x W^T + bias + added for few rows and 16-bit weights, activated.
void multiply_few_rows(const LinearStep& task, const Tensor& x, Activation activation, const Tensor& y) {
  const std::int64_t rows = x.size(0), depth = x.size(1), outputs = y.size(1);
  const Tensor values = x.to(DType::float32).contiguous();
  constexpr std::int64_t kWeights = 1 << 16;  // of a task
  const std::int64_t outputs_of_task = std::max<std::int64_t>(4, kWeights / std::max<std::int64_t>(1, depth) / 4 * 4);
  const std::int64_t parts = divide_up(outputs, outputs_of_task);
  const auto bytes = static_cast<std::int64_t>(item_size(x.dtype()));
  parallel_for(rows * parts, [&](std::int64_t index, int) {
    const std::int64_t row = index / parts, first = index % parts * outputs_of_task;
    const std::int64_t count = std::min(outputs_of_task, outputs - first);
    const auto part_of = [&](const Tensor& tensor, std::int64_t of_row) {
      return tensor.defined() ? row_of(tensor, of_row) + first * bytes : nullptr;
    };
    std::byte* result = row_of(y, row) + first * bytes;
    decoding_kernels().weight_rows(
        {.dtype = x.dtype(),
         .outputs = count,
         .depth = depth,
         .x = tensor_data<const float>(values) + row * depth,
         .weight = row_of(task.weight, first),
         .bias = task.bias.defined() ? tensor_data<std::byte>(task.bias) + first * bytes : nullptr,
         .added = part_of(task.added, row),
         .result = result});
    if (activation == Activation::none) return;
    pointwise_kernels().activate(
        {.activation = activation, .dtype = x.dtype(), .count = count, .x = result, .result = result});
  });
}

// result = a b + bias + added. The sums of a packed weight start from what is added, except for 16-bit results, which
// cannot hold sums.
void add_product(CpuBackend& backend, const LinearStep& task, MatmulProblem problem) {
  const std::int64_t rows = problem.rows, outputs = problem.columns;
  const auto add = [&](const std::byte* other, std::int64_t row_stride) {
    backend.binary({.operation = Binary::add,
                    .dtype = problem.result.dtype,
                    .rows = rows,
                    .columns = outputs,
                    .a = tensor_data<std::byte>(task.added),
                    .a_row_stride = outputs,
                    .b = other,
                    .b_row_stride = row_stride,
                    .result = problem.result.data});
  };
  if (!problem.packed_b || item_size(problem.result.dtype) <= 2) {
    const bool is_apart = problem.result.data != tensor_data<std::byte>(task.added);
    const Tensor product = is_apart ? task.result : Tensor::empty({rows, outputs}, problem.result.dtype);
    std::byte* target = problem.result.data;
    problem.result.data = tensor_data<std::byte>(product);
    backend.matmul(problem);
    problem.result.data = target;
    return add(tensor_data<std::byte>(product), outputs);
  }
  if (problem.bias) {
    add(problem.bias, 0);
  } else if (problem.result.data != tensor_data<std::byte>(task.added)) {
    std::memcpy(problem.result.data, tensor_data<std::byte>(task.added),
                static_cast<std::size_t>(rows * outputs) * item_size(problem.result.dtype));
  }
  problem.bias = nullptr;
  problem.accumulate = true;
  backend.matmul(problem);
}

}  // namespace

void gate(const Tensor& y, Activation activation, const Tensor& result) {
  const std::int64_t rows = y.size(0), hidden = y.size(1) / 2;
  constexpr std::int64_t kElements = 1 << 14;  // of a task
  const std::int64_t rows_of_task = std::max<std::int64_t>(1, kElements / std::max<std::int64_t>(1, hidden));
  const auto bytes = static_cast<std::int64_t>(item_size(y.dtype())) * hidden;
  parallel_for(divide_up(rows, rows_of_task), [&](std::int64_t task, int) {
    for (std::int64_t r = task * rows_of_task; r < std::min((task + 1) * rows_of_task, rows); ++r) {
      std::byte* first = row_of(y, r);
      pointwise_kernels().activate(
          {.activation = activation, .dtype = y.dtype(), .count = hidden, .x = first, .result = first});
      pointwise_kernels().binary({.operation = Binary::multiply,
                                  .dtype = y.dtype(),
                                  .columns = hidden,
                                  .a = first,
                                  .b = first + bytes,
                                  .result = row_of(result, r)});
    }
  });
}

void CpuBackend::embed_step(const EmbedStep& task) {
  if (task.scales.defined()) return embed_rows<std::int8_t, float>(task);
  dispatch_floating(task.weight.dtype(), [&]<typename T>() { embed_rows<T, T>(task); });
}

void CpuBackend::linear_step(const LinearStep& task) {
  const std::int64_t rows = task.x.size(0), outputs = task.result.size(1) * (task.gated ? 2 : 1);
  if (rows == 0) return;
  const DType dtype = task.x.dtype();
  if (task.scales.defined()) return quantized_linear_step(task);
  Tensor x = task.x;
  if (task.norm.kind != StepNorm::none) {
    const DType statistics = dtype == DType::float64 ? DType::float64 : DType::float32;
    x = Tensor::empty({rows, task.x.size(1)}, dtype);
    norm(task.x.contiguous(), task.norm.weight, task.norm.bias, task.norm.epsilon,
         {x, task.norm.kind == StepNorm::layer ? Tensor::empty({rows}, statistics) : Tensor(),
          Tensor::empty({rows}, statistics)});
  }
  const Tensor y = task.gated ? Tensor::empty({rows, outputs}, dtype) : task.result;
  if (rows <= kFewRows && item_size(dtype) <= 2 && !task.packed.defined()) {
    multiply_few_rows(task, x, task.gated ? Activation::none : task.activation, y);
    if (task.gated) gate(y, task.activation, task.result);
    return;
  }
  MatmulProblem problem = {.rows = rows, .columns = outputs, .depth = x.size(1)};
  problem.activation = task.gated ? Activation::none : task.activation;
  problem.a = {tensor_data<std::byte>(x), x.stride(0), x.stride(1), 0, dtype};
  if (task.packed.defined()) {
    problem.packed_b = tensor_data<std::byte>(task.packed);
  } else {
    problem.b = {tensor_data<std::byte>(task.weight), task.weight.stride(1), task.weight.stride(0), 0, dtype};
  }
  problem.result = {tensor_data<std::byte>(y), outputs, 1, 0, dtype};
  if (task.bias.defined()) problem.bias = tensor_data<std::byte>(task.bias);
  if (!task.added.defined()) {
    matmul(problem);
  } else {
    add_product(*this, task, problem);
  }
  if (task.gated) gate(y, task.activation, task.result);
}
void CpuBackend::top_tokens(const TopTask& task) {
  dispatch_floating(task.logits.dtype(), [&]<typename T>() {
    parallel_for(task.logits.size(0), [&](std::int64_t row, int) { top_row<T>(task, row); });
  });
}

void CpuBackend::take_best(const TakeBest& task) {
  const std::int64_t rows = task.newest.size(0), count = task.top.tokens.size(1);
  std::int64_t& step = *tensor_data<std::int64_t>(task.step);
  const bool is_inside = step >= 0 && step < task.history.tokens.size(0);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t token = tensor_data<const std::int64_t>(task.top.tokens)[row * count];
    tensor_data<std::int64_t>(task.newest)[row] = token;
    ++tensor_data<std::int64_t>(task.positions)[row];
    if (!is_inside) continue;
    tensor_data<std::int64_t>(task.history.tokens)[step * rows + row] = token;
    tensor_data<float>(task.history.scores)[step * rows + row] =
        tensor_data<const float>(task.top.logits)[row * count] - tensor_data<const float>(task.top.logsumexp)[row];
  }
  ++step;
}

void CpuBackend::gather_rows(const GatherRows& task) {
  const std::int64_t count = task.source.size(0), rows = task.indices.size(0);
  if (task.result.element_count() == 0) return;
  const std::size_t bytes =
      static_cast<std::size_t>(task.result.element_count() / rows) * item_size(task.source.dtype());
  const auto* from = tensor_data<const std::byte>(task.source);
  auto* to = tensor_data<std::byte>(task.result);
  for (std::int64_t row = 0; row < rows; ++row, to += bytes) {
    const std::int64_t index = tensor_data<const std::int64_t>(task.indices)[row];
    if (index >= 0 && index < count) {
      std::memcpy(to, from + static_cast<std::size_t>(index) * bytes, bytes);
    } else {
      std::memset(to, 0, bytes);
    }
  }
}

}  // namespace headway::inline v0::internal::cpu
