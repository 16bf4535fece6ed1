// A GPU as a backend. Every member makes its GPU current first, by an OnGpu, and is defined in the file of its name or
// of its group: pointwise.cu, decoding.cu. Bits follow from shapes, dtypes, strides and alignments alone: no sum
// depends on the order in which blocks run.
#pragma once

#include "backend/backend.h"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int index) : index_(index) {}

  std::string description() override;
  void synchronize() override;
  void set_stream(void* stream) override;
  void* stream() override;
  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override;

  MemoryBlock allocate(std::size_t bytes) override;
  MemoryBlock allocate_zeroed(std::size_t bytes) override;
  void release(const MemoryBlock& block) noexcept override;
  void copy_to_device(void* target, const void* source, std::size_t bytes) override;
  void copy_to_host(void* target, const void* source, std::size_t bytes) override;
  void strided_copy(const StridedTarget& target, const StridedSource& source, const Shape& shape) override;
  void fill(const StridedTarget& target, const Shape& shape, double value) override;
  void middle_sum(const MiddleSum& task) override;

  void binary(const BinaryTask& task) override;
  void unary(const UnaryTask& task) override;
  void scale(const ScaleTask& task) override;
  void lerp(const LerpTask& task) override;
  void activate(const ActivateTask& task) override;
  void activation_backward(const ActivationBackward& task) override;
  void dropout(const DropoutTask& task) override;
  void column_sums(const ColumnSums& task) override;
  void rotary(const RotaryProblem& problem) override;
  void compare(const CompareTask& task) override;
  void select(const SelectTask& task) override;
  void extreme(const ExtremeTask& task) override;
  void place(const PlaceTask& task) override;

  void norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
            const NormResult& result) override;
  void norm_backward(const NormBackwardInputs& inputs, const NormGradients& gradients) override;
  void add_norm(const AddNormInputs& inputs, const Tensor& sum, const NormResult& result) override;
  void add_norm_backward(const AddNormBackwardInputs& inputs, const AddNormGradients& gradients) override;
  void softmax(SoftmaxKind kind, const Tensor& x, const Tensor& y) override;
  void softmax_backward(SoftmaxKind kind, const Tensor& y, const Tensor& d_y, const Tensor& d_x) override;
  void cross_entropy(const CrossEntropyRows& rows, double factor, bool per_row, const Tensor& loss) override;
  void cross_entropy_backward(const CrossEntropyRows& rows, const Tensor& d_loss, double factor,
                              const Tensor& d_logits) override;
  void embedding(const Tensor& weight, const std::vector<std::int64_t>& indices, const Tensor& output) override;
  void embedding_backward(const Tensor& d_output, const std::vector<std::int64_t>& indices,
                          const Tensor& d_weight) override;

  void matmul(const MatmulProblem& problem) override;
  bool adds_products() const override { return true; }
  Tensor pack_weight(const Tensor&) override { return {}; }

  void sgd(std::span<const ParameterSpan> parameters, const SgdStep& step) override;
  void adam(std::span<const ParameterSpan> parameters, const AdamStep& step) override;
  std::vector<double> sum_of_squares(std::span<const ParameterSpan> parameters) override;

  void attention(const AttentionProblem& problem, AttentionResult& result) override;
  void attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                          AttentionGradients& gradients) override;
  bool writes_attention_sums() const override { return false; }
  void merge_attention(const AttentionMerge& task) override;

  void embed_step(const EmbedStep& task) override;
  void linear_step(const LinearStep& task) override;
  void cache_append(const CacheAppend& task) override;
  void cache_attention(const CacheAttention& task) override;
  void top_tokens(const TopTask& task) override;
  void sample_tokens(const SampleTask& task) override;
  void take_best(const TakeBest& task) override;
  void gather_rows(const GatherRows& task) override;

  std::string new_nccl_id() override;
  std::shared_ptr<Transport> open_nccl(const std::string& id, int rank, int size) override;

  // Makes the GPU current while it lives, and the caller's again after it.
  class OnGpu {
   public:
    explicit OnGpu(int index) : index_(index) {
      check_cuda(cudaGetDevice(&previous_), "cudaGetDevice");
      if (previous_ != index_) check_cuda(cudaSetDevice(index_), "cudaSetDevice");
    }
    ~OnGpu() {
      if (previous_ != index_) cudaSetDevice(previous_);
    }
    OnGpu(const OnGpu&) = delete;
    OnGpu& operator=(const OnGpu&) = delete;

   private:
    int index_;
    int previous_ = 0;
  };

 private:
  OnGpu on_gpu() const { return OnGpu(index_); }

  int index_;
};

// ---- what the members use of each other: their GPU is current ----

// As DeviceMemory::strided_copy; conversions are those of core/convert.h.
void copy_strided(const StridedTarget& target, const StridedSource& source, const Shape& shape);

// As DeviceMemory::middle_sum, with a target of another floating dtype than x.
void middle_sum_as(const MiddleSum& task, DType target_dtype);

// Backend::add_norm and its backward in one pass over the elements; false, with nothing done, where rows are too long
// or not of whole packs. `inputs.y` undefined: a plain norm, without a sum.
bool add_norm_in_one_pass(const AddNormInputs& inputs, const Tensor& sum, const NormResult& result);
bool add_norm_backward_in_one_pass(const AddNormBackwardInputs& inputs, const AddNormGradients& gradients);

}  // namespace headway::inline v0::internal::cuda
