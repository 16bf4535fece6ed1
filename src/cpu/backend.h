// The CPU as a backend. Every member is defined in the file of its name, or of its group: pointwise.cpp, rowwise.cpp.
// Bits do not depend on the number of threads: how work is cut and the order of sums follow from the shapes, dtypes and
// strides alone.
#pragma once

#include "backend/backend.h"
#include "cpu/host_memory.h"

namespace headway::inline v0::internal::cpu {

class CpuBackend final : public HostMemory<Backend> {
 public:
  std::string description() override;
  void synchronize() override {}
  void set_stream(void*) override {}
  void* stream() override { return nullptr; }
  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override;
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
  bool adds_products() const override { return false; }  // nor to 16 bits at all
  Tensor pack_weight(const Tensor& weight) override;

  void sgd(std::span<const ParameterSpan> parameters, const SgdStep& step) override;
  void adam(std::span<const ParameterSpan> parameters, const AdamStep& step) override;
  std::vector<double> sum_of_squares(std::span<const ParameterSpan> parameters) override;

  void attention(const AttentionProblem& problem, AttentionResult& result) override;
  void attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                          AttentionGradients& gradients) override;
  bool writes_attention_sums() const override { return true; }
  void merge_attention(const AttentionMerge& task) override;

  void embed_step(const EmbedStep& task) override;
  void linear_step(const LinearStep& task) override;
  void cache_append(const CacheAppend& task) override;
  void cache_attention(const CacheAttention& task) override;
  void top_tokens(const TopTask& task) override;
  void sample_tokens(const SampleTask& task) override;
  void take_best(const TakeBest& task) override;
  void gather_rows(const GatherRows& task) override;
};

}  // namespace headway::inline v0::internal::cpu
