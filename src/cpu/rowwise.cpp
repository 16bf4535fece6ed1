// Norms, softmax, cross entropy and embeddings. All tensors are dense; rows are the last dimension.
#include <algorithm>
#include <cstring>

#include "backend/add_norm.h"
#include "base/divide.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "core/scratch.h"
#include "core/thread_pool.h"
#include "cpu/backend.h"
#include "cpu/isa.h"

namespace headway::inline v0::internal::cpu {
namespace {

// Elements of a task: enough to pay for handing it to a thread.
constexpr std::int64_t kTaskElements = 1 << 14;

// Runs the kernel over all rows, in tasks of as many rows as have about kTaskElements, four for the longest: the
// kernels may look a row ahead. The task comes filled in but for begin and end.
template <typename Task, typename Kernel>
void for_rows(std::int64_t rows, std::int64_t columns, const Task& common, const Kernel& kernel) {
  const std::int64_t step =
      std::max<std::int64_t>(rows > 64 ? 4 : 1, kTaskElements / std::max<std::int64_t>(1, columns));
  parallel_for(divide_up(rows, step), [&](std::int64_t t, int) {
    Task task = common;
    task.begin = t * step;
    task.end = std::min(task.begin + step, rows);
    kernel(task);
  });
}

void* data_of(const Tensor& tensor) { return tensor.defined() ? tensor.raw_data() : nullptr; }

std::int64_t row_count(const Tensor& x) {
  const std::int64_t columns = x.size(-1);
  return columns == 0 ? 0 : x.element_count() / columns;
}

// Partial sums over rows, one (features) per chunk of rows, and their joining in the order of the chunks.
class RowSums {
 public:
  RowSums(const Tensor& target, std::int64_t chunks, std::int64_t features)
      : target_(target),
        chunks_(chunks),
        features_(features),
        real_bytes_(target.defined() && target.dtype() == DType::float64 ? 8 : 4),
        parts_(target.defined() ? static_cast<std::size_t>(chunks * features * real_bytes_) : 0) {}

  // (features) Real of one chunk; null where the sums are not wanted.
  void* part(std::int64_t chunk) const {
    return target_.defined() ? parts_.data() + chunk * features_ * real_bytes_ : nullptr;
  }

  void join() const {
    if (!target_.defined()) return;
    const std::int64_t step = std::max<std::int64_t>(64, kTaskElements / std::max<std::int64_t>(1, chunks_) / 64 * 64);
    parallel_for(divide_up(features_, step), [&](std::int64_t t, int) {
      JoinTask task;
      task.dtype = target_.dtype();
      task.begin = t * step;
      task.end = std::min(task.begin + step, features_);
      task.parts_count = chunks_;
      task.part_stride = features_;
      task.parts = parts_.data();
      task.target = target_.raw_data();
      rowwise_kernels().join(task);
    });
  }

 private:
  const Tensor& target_;
  std::int64_t chunks_;
  std::int64_t features_;
  std::int64_t real_bytes_;
  ScratchBuffer parts_;  // (chunks, features)
};

// Rows of a chunk whose sums are taken together: enough that the sums are small beside the rows, and that there are
// not many of them.
std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t features) {
  constexpr std::int64_t kLeast = 32, kMostChunks = 128;
  const std::int64_t by_elements = kTaskElements / std::max<std::int64_t>(1, features);
  return std::max({kLeast, by_elements, divide_up(rows, kMostChunks)}) / 4 * 4;
}

NormTask norm_task(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                   const NormResult& result) {
  NormTask task;
  task.dtype = x.dtype();
  task.features = x.size(-1);
  task.epsilon = epsilon;
  task.x = x.raw_data();
  task.weight = data_of(weight);
  task.bias = data_of(bias);
  task.y = result.y.raw_data();
  task.mean = data_of(result.mean);
  task.inverse = result.inverse.raw_data();
  return task;
}

}  // namespace

void CpuBackend::norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                      const NormResult& result) {
  const NormTask task = norm_task(x, weight, bias, epsilon, result);
  for_rows(row_count(x), task.features, task, rowwise_kernels().norm);
}

// A task's rows are normed right after they were added, while they are in the cache.
void CpuBackend::add_norm(const AddNormInputs& inputs, const Tensor& sum, const NormResult& result) {
  if (inputs.rule.threshold != 0) return add_norm_in_steps(*this, inputs, sum, result);
  const auto bytes_at = [](const Tensor& tensor, std::int64_t element) {
    return static_cast<std::byte*>(tensor.raw_data()) + element * static_cast<std::int64_t>(item_size(tensor.dtype()));
  };
  const NormTask task = norm_task(sum, inputs.weight, inputs.bias, inputs.epsilon, result);
  for_rows(row_count(sum), task.features, task, [&](const NormTask& part) {
    const std::int64_t first = part.begin * task.features;
    pointwise_kernels().binary({.operation = Binary::add,
                                .dtype = task.dtype,
                                .columns = (part.end - part.begin) * task.features,
                                .a = bytes_at(inputs.x, first),
                                .b = bytes_at(inputs.y, first),
                                .result = bytes_at(sum, first)});
    rowwise_kernels().norm(part);
  });
}

void CpuBackend::norm_backward(const NormBackwardInputs& inputs, const NormGradients& gradients) {
  const std::int64_t features = inputs.x.size(-1), rows = row_count(inputs.x);
  const std::int64_t step = rows_per_chunk(rows, features), chunks = divide_up(rows, step);
  const RowSums d_weight(gradients.weight, chunks, features), d_bias(gradients.bias, chunks, features);
  parallel_for(chunks, [&](std::int64_t chunk, int) {
    NormBackwardTask task;
    task.dtype = inputs.x.dtype();
    task.begin = chunk * step;
    task.end = std::min(task.begin + step, rows);
    task.features = features;
    task.x = inputs.x.raw_data();
    task.weight = data_of(inputs.weight);
    task.mean = data_of(inputs.mean);
    task.inverse = inputs.inverse.raw_data();
    task.d_y = inputs.d_y.raw_data();
    task.d_x = data_of(gradients.x);
    task.d_weight = d_weight.part(chunk);
    task.d_bias = d_bias.part(chunk);
    rowwise_kernels().norm_backward(task);
  });
  d_weight.join();
  d_bias.join();
}

void CpuBackend::softmax(SoftmaxKind kind, const Tensor& x, const Tensor& y) {
  SoftmaxTask task;
  task.dtype = x.dtype();
  task.logarithm = kind == SoftmaxKind::logarithm;
  task.classes = x.size(-1);
  task.x = x.raw_data();
  task.y = y.raw_data();
  for_rows(row_count(x), task.classes, task, rowwise_kernels().softmax);
}

void CpuBackend::softmax_backward(SoftmaxKind kind, const Tensor& y, const Tensor& d_y, const Tensor& d_x) {
  SoftmaxBackwardTask task;
  task.dtype = y.dtype();
  task.logarithm = kind == SoftmaxKind::logarithm;
  task.classes = y.size(-1);
  task.y = y.raw_data();
  task.d_y = d_y.raw_data();
  task.d_x = d_x.raw_data();
  for_rows(row_count(y), task.classes, task, rowwise_kernels().softmax_backward);
}

void CpuBackend::cross_entropy(const CrossEntropyRows& rows, double factor, bool per_row, const Tensor& loss) {
  std::vector<double> losses(static_cast<std::size_t>(rows.targets.element_count()));
  CrossEntropyTask task;
  task.dtype = rows.logits.dtype();
  task.classes = rows.logits.size(-1);
  task.smoothing = rows.smoothing;
  task.logits = rows.logits.raw_data();
  task.targets = rows.targets.data<std::int64_t>();
  task.logsumexp = rows.logsumexp.raw_data();
  task.losses = losses.data();
  for_rows(rows.targets.element_count(), task.classes, task, rowwise_kernels().cross_entropy);
  double sum = 0;
  for (const double value : losses) sum += value;
  dispatch_floating(loss.dtype(), [&]<typename T>() {
    T* to = loss.data<T>();
    if (per_row) {
      std::transform(losses.begin(), losses.end(), to, [](double value) { return convert<T>(value); });
    } else {
      *to = convert<T>(sum * factor);
    }
  });
}

void CpuBackend::cross_entropy_backward(const CrossEntropyRows& rows, const Tensor& d_loss, double factor,
                                        const Tensor& d_logits) {
  CrossEntropyBackwardTask task;
  task.dtype = rows.logits.dtype();
  task.classes = rows.logits.size(-1);
  task.smoothing = rows.smoothing;
  task.factor = factor;
  task.logits = rows.logits.raw_data();
  task.targets = rows.targets.data<std::int64_t>();
  task.logsumexp = rows.logsumexp.raw_data();
  task.d_losses = d_loss.raw_data();
  task.one_d_loss = d_loss.element_count() == 1;
  task.d_logits = d_logits.raw_data();
  for_rows(rows.targets.element_count(), task.classes, task, rowwise_kernels().cross_entropy_backward);
}

void CpuBackend::embedding(const Tensor& weight, const std::vector<std::int64_t>& indices, const Tensor& output) {
  const std::size_t item = item_size(weight.dtype());
  const std::size_t row_bytes = static_cast<std::size_t>(weight.size(1)) * item;
  const std::size_t stride_bytes = static_cast<std::size_t>(weight.stride(0)) * item;
  const auto* from = static_cast<const std::byte*>(weight.raw_data());
  auto* to = static_cast<std::byte*>(output.raw_data());
  const auto tokens = static_cast<std::int64_t>(indices.size());
  const std::int64_t step = std::max<std::int64_t>(1, kTaskElements / std::max<std::int64_t>(1, weight.size(1)));
  parallel_for(divide_up(tokens, step), [&](std::int64_t t, int) {
    const std::int64_t end = std::min((t + 1) * step, tokens);
    for (auto i = static_cast<std::size_t>(t * step); i < static_cast<std::size_t>(end); ++i) {
      std::memcpy(to + i * row_bytes, from + static_cast<std::size_t>(indices[i]) * stride_bytes, row_bytes);
    }
  });
}

void CpuBackend::embedding_backward(const Tensor& d_output, const std::vector<std::int64_t>& indices,
                                    const Tensor& d_weight) {
  const std::int64_t count = d_weight.size(0);
  // Tokens by their rows, in ascending order within a row: each row is then one task's alone, and its sum has one
  // order.
  std::vector<std::int64_t> starts(static_cast<std::size_t>(count) + 2);  // two further on while counting
  for (const std::int64_t index : indices) {
    if (index >= 0) ++starts[static_cast<std::size_t>(index) + 2];
  }
  for (std::size_t row = 2; row < starts.size(); ++row) starts[row] += starts[row - 1];
  std::vector<std::int64_t> order(indices.size());
  for (std::size_t token = 0; token < indices.size(); ++token) {
    if (indices[token] < 0) continue;
    std::int64_t& next = starts[static_cast<std::size_t>(indices[token]) + 1];
    order[static_cast<std::size_t>(next++)] = static_cast<std::int64_t>(token);
  }
  EmbeddingBackwardTask task;
  task.dtype = d_weight.dtype();
  task.features = d_weight.size(1);
  task.starts = starts.data();
  task.order = order.data();
  task.d_output = d_output.raw_data();
  task.d_weight = d_weight.raw_data();
  for_rows(count, task.features, task, rowwise_kernels().embedding_backward);
}

}  // namespace headway::inline v0::internal::cpu
