// The interface of a device for tensors and operations, the same for the CPU and every other device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/attention_merge.h"
#include "backend/attention_problem.h"
#include "backend/compare_tasks.h"
#include "backend/decoding_tasks.h"
#include "backend/matmul_problem.h"
#include "backend/optimizer_tasks.h"
#include "backend/pointwise_tasks.h"
#include "backend/rotary_problem.h"
#include "backend/rowwise_tasks.h"
#include "base/check.h"
#include "core/device_memory.h"
#include "headway/transport.h"

namespace headway::inline v0::internal {

// Recorded work that a device can replay.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void replay() = 0;
};

// All memory that a call names is the device's, but for std::vectors and std::spans, which are the host's. A call may
// return before its work is done; the next one on the same thread sees its results.
class Backend : public DeviceMemory {
 public:
  // ---- the device ----
  // "NVIDIA H200, 139.8 GiB, compute capability 9.0"
  virtual std::string description() = 0;
  // Waits for all work that this thread has enqueued.
  virtual void synchronize() = 0;
  // Sets the stream of this thread's work: a cudaStream_t; null: a stream of Headway's own. Without effect on a device
  // without streams.
  virtual void set_stream(void* stream) = 0;
  virtual void* stream() = 0;
  // Calls work() and records what it enqueues, which runs only when it is replayed. work() must release all memory that
  // it allocates, and may neither copy from or to the host nor wait. A device without a queue calls work() at every
  // replay instead.
  virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& work) = 0;

  // ---- elementwise ----
  virtual void binary(const BinaryTask& task) = 0;
  virtual void unary(const UnaryTask& task) = 0;
  virtual void scale(const ScaleTask& task) = 0;
  virtual void lerp(const LerpTask& task) = 0;
  virtual void activate(const ActivateTask& task) = 0;
  // d_before = d_after * factor * slope, and its column sums in the same pass where they are requested.
  virtual void activation_backward(const ActivationBackward& task) = 0;
  virtual void dropout(const DropoutTask& task) = 0;
  virtual void column_sums(const ColumnSums& task) = 0;
  virtual void rotary(const RotaryProblem& problem) = 0;
  virtual void compare(const CompareTask& task) = 0;
  virtual void select(const SelectTask& task) = 0;
  virtual void extreme(const ExtremeTask& task) = 0;
  virtual void place(const PlaceTask& task) = 0;

  // ---- over rows ----
  // Undefined weights are ones, undefined biases zeros.
  virtual void norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                    const NormResult& result) = 0;
  virtual void norm_backward(const NormBackwardInputs& inputs, const NormGradients& gradients) = 0;
  // Fills `sum` and the norm's result.
  virtual void add_norm(const AddNormInputs& inputs, const Tensor& sum, const NormResult& result) = 0;
  virtual void add_norm_backward(const AddNormBackwardInputs& inputs, const AddNormGradients& gradients) = 0;
  virtual void softmax(SoftmaxKind kind, const Tensor& x, const Tensor& y) = 0;
  // d_x may be d_y itself.
  virtual void softmax_backward(SoftmaxKind kind, const Tensor& y, const Tensor& d_y, const Tensor& d_x) = 0;
  // Fills logsumexp and the loss, which are of one dtype: one per row where `per_row`, else the sum of all times
  // `factor` in its one element.
  virtual void cross_entropy(const CrossEntropyRows& rows, double factor, bool per_row, const Tensor& loss) = 0;
  // d_logits = (softmax - target distribution) * d_loss * factor; d_loss, of logsumexp's dtype, has one element, or one
  // per row.
  virtual void cross_entropy_backward(const CrossEntropyRows& rows, const Tensor& d_loss, double factor,
                                      const Tensor& d_logits) = 0;
  // output (tokens, features): rows of weight (count, features). Only the weight's last dimension need be dense.
  virtual void embedding(const Tensor& weight, const std::vector<std::int64_t>& indices, const Tensor& output) = 0;
  // d_weight (count, features): each row is the sum of the rows of d_output whose index it is; negative indices have
  // none.
  virtual void embedding_backward(const Tensor& d_output, const std::vector<std::int64_t>& indices,
                                  const Tensor& d_weight) = 0;

  // ---- products ----
  virtual void matmul(const MatmulProblem& problem) = 0;
  // Whether matmul() adds to a sum of any dtype (MatmulProblem::accumulate) faster than a pass of its own would.
  virtual bool adds_products() const = 0;
  // A weight [out, in] in the order in which products x W^T read it, for MatmulProblem::packed_b: it pays where a
  // weight serves many products of few rows. Undefined where the device reads weights as they are.
  virtual Tensor pack_weight(const Tensor& weight) = 0;

  // ---- optimizers: all parameters at once ----
  virtual void sgd(std::span<const ParameterSpan> parameters, const SgdStep& step) = 0;
  virtual void adam(std::span<const ParameterSpan> parameters, const AdamStep& step) = 0;
  // The sum of the squares of every span's gradient, in float64; not finite where the gradient is not.
  virtual std::vector<double> sum_of_squares(std::span<const ParameterSpan> parameters) = 0;

  // ---- attention ----
  // Fills result.output, whose last dimension is contiguous, result.logsumexp and, on request, result.weights,
  // which are contiguous; all are allocated. There is a query, here and in the backward.
  virtual void attention(const AttentionProblem& problem, AttentionResult& result) = 0;
  // Fills the gradients, which are allocated with contiguous last dimensions; bias and sinks only where they are
  // defined. gradients.bias is zero and has the shape of problem.bias with broadcast dimensions reduced to 1, in
  // float32 or float64 sums.
  virtual void attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                                  AttentionGradients& gradients) = 0;
  // Whether the output and the gradients of 16-bit tensors may be allocated in float32, and are then not rounded.
  virtual bool writes_attention_sums() const = 0;
  virtual void merge_attention(const AttentionMerge& task) = 0;

  // ---- decoding: indices and positions are read where they are ----
  virtual void embed_step(const EmbedStep& task) = 0;
  virtual void linear_step(const LinearStep& task) = 0;
  virtual void cache_append(const CacheAppend& task) = 0;
  virtual void cache_attention(const CacheAttention& task) = 0;
  virtual void top_tokens(const TopTask& task) = 0;
  virtual void sample_tokens(const SampleTask& task) = 0;
  virtual void take_best(const TakeBest& task) = 0;
  virtual void gather_rows(const GatherRows& task) = 0;

  // ---- ranks ----
  // NCCL: what joins the ranks that pass the same to open_nccl(), one GPU each; 128 bytes, made by one of them.
  virtual std::string new_nccl_id() { fail_without_nccl(); }
  virtual std::shared_ptr<Transport> open_nccl(const std::string& /*id*/, int /*rank*/, int /*size*/) {
    fail_without_nccl();
  }

  // Gradients are accumulated by binary().
  void accumulate(DType dtype, std::int64_t count, void* sum, const void* more) final {
    binary({.operation = Binary::add,
            .dtype = dtype,
            .columns = count,
            .a = static_cast<const std::byte*>(sum),
            .b = static_cast<const std::byte*>(more),
            .result = static_cast<std::byte*>(sum)});
  }

 private:
  [[noreturn]] void fail_without_nccl() {
    fail("NCCL: a rank on ", description(), " cannot use it, expected an NVIDIA GPU");
  }
};

}  // namespace headway::inline v0::internal
