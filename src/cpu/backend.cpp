// The CPU as a backend: every call goes to the function of its name.
#include <cstring>
#include <utility>

#include "backend/add_norm.h"
#include "backend/registry.h"
#include "core/aligned_memory.h"
#include "cpu/attention.h"
#include "cpu/compare.h"
#include "cpu/decoding.h"
#include "cpu/matmul.h"
#include "cpu/middle_sum.h"
#include "cpu/optimizer.h"
#include "cpu/pointwise.h"
#include "cpu/rowwise.h"
#include "cpu/strided_copy.h"
#include "headway/info.h"

namespace headway::inline v0::internal::cpu {
namespace {

// Work is done at once, so that nothing is recorded: a replay calls the function again.
class CalledWork final : public RecordedWork {
 public:
  explicit CalledWork(std::function<void()> work) : work_(std::move(work)) {}
  void replay() override { work_(); }

 private:
  std::function<void()> work_;
};

class CpuBackend final : public Backend {
 public:
  MemoryBlock allocate(std::size_t bytes) override { return allocate_block(bytes); }
  MemoryBlock allocate_zeroed(std::size_t bytes) override { return allocate_zeroed_block(bytes); }
  void release(const MemoryBlock& block) noexcept override { give_block_back(block); }
  void copy_to_device(void* target, const void* source, std::size_t bytes) override {
    std::memcpy(target, source, bytes);
  }
  void copy_to_host(void* target, const void* source, std::size_t bytes) override {
    std::memcpy(target, source, bytes);
  }
  void strided_copy(const StridedTarget& target, const StridedSource& source, const Shape& shape) override {
    cpu::strided_copy(target, source, shape);
  }
  void fill(const StridedTarget& target, const Shape& shape, double value) override { cpu::fill(target, shape, value); }
  void middle_sum(const MiddleSum& task) override { cpu::middle_sum(task); }

  std::string description() override { return "CPU, " + instruction_set(); }
  void synchronize() override {}
  void set_stream(void*) override {}
  void* stream() override { return nullptr; }
  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override {
    return std::make_unique<CalledWork>(work);
  }

  void binary(const BinaryTask& task) override { cpu::binary(task); }
  void unary(const UnaryTask& task) override { cpu::unary(task); }
  void scale(const ScaleTask& task) override { cpu::scale(task); }
  void lerp(const LerpTask& task) override { cpu::lerp(task); }
  void activate(const ActivateTask& task) override { cpu::activate(task); }
  void activation_backward(const ActivationBackward& task) override { cpu::activation_backward(task); }
  void dropout(const DropoutTask& task) override { cpu::dropout(task); }
  void column_sums(const ColumnSums& task) override { cpu::column_sums(task); }
  void rotary(const RotaryProblem& problem) override { cpu::rotary(problem); }
  void compare(const CompareTask& task) override { cpu::compare(task); }
  void select(const SelectTask& task) override { cpu::select(task); }
  void extreme(const ExtremeTask& task) override { cpu::extreme(task); }
  void place(const PlaceTask& task) override { cpu::place(task); }

  void norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
            const NormResult& result) override {
    cpu::norm(x, weight, bias, epsilon, result);
  }
  void norm_backward(const NormBackwardInputs& inputs, const NormGradients& gradients) override {
    cpu::norm_backward(inputs, gradients);
  }
  void add_norm(const AddNormInputs& inputs, const Tensor& sum, const NormResult& result) override {
    add_norm_in_steps(*this, inputs, sum, result);
  }
  void add_norm_backward(const AddNormBackwardInputs& inputs, const AddNormGradients& gradients) override {
    add_norm_backward_in_steps(*this, inputs, gradients);
  }
  void softmax(SoftmaxKind kind, const Tensor& x, const Tensor& y) override { cpu::softmax(kind, x, y); }
  void softmax_backward(SoftmaxKind kind, const Tensor& y, const Tensor& d_y, const Tensor& d_x) override {
    cpu::softmax_backward(kind, y, d_y, d_x);
  }
  void cross_entropy(const CrossEntropyRows& rows, double factor, bool per_row, const Tensor& loss) override {
    cpu::cross_entropy(rows, factor, per_row, loss);
  }
  void cross_entropy_backward(const CrossEntropyRows& rows, const Tensor& d_loss, double factor,
                              const Tensor& d_logits) override {
    cpu::cross_entropy_backward(rows, d_loss, factor, d_logits);
  }
  void embedding(const Tensor& weight, const std::vector<std::int64_t>& indices, const Tensor& output) override {
    cpu::embedding(weight, indices, output);
  }
  void embedding_backward(const Tensor& d_output, const std::vector<std::int64_t>& indices,
                          const Tensor& d_weight) override {
    cpu::embedding_backward(d_output, indices, d_weight);
  }

  void matmul(const MatmulProblem& problem) override { cpu::matmul(problem); }
  bool adds_products() const override { return false; }  // nor to 16 bits at all
  Tensor pack_weight(const Tensor& weight) override { return cpu::pack_weight(weight); }

  void sgd(std::span<const ParameterSpan> parameters, const SgdStep& step) override { cpu::sgd(parameters, step); }
  void adam(std::span<const ParameterSpan> parameters, const AdamStep& step) override { cpu::adam(parameters, step); }
  std::vector<double> sum_of_squares(std::span<const ParameterSpan> parameters) override {
    return cpu::sum_of_squares(parameters);
  }

  void attention(const AttentionProblem& problem, AttentionResult& result) override { cpu::attention(problem, result); }
  void attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                          AttentionGradients& gradients) override {
    cpu::attention_backward(problem, inputs, gradients);
  }

  void embed_step(const EmbedStep& task) override { cpu::embed_step(task); }
  void cache_attention(const CacheAttention& task) override { cpu::cache_attention(task); }
  void top_tokens(const TopTask& task) override { cpu::top_tokens(task); }
  void take_best(const TakeBest& task) override { cpu::take_best(task); }
  void gather_rows(const GatherRows& task) override { cpu::gather_rows(task); }
};

}  // namespace
}  // namespace headway::inline v0::internal::cpu

namespace headway::inline v0::internal {

DeviceList cpu_devices() {
  return {.problem = "", .count = 1, .backend = [](int) -> Backend* {
            static auto* backend = new cpu::CpuBackend;  // never destroyed: tensors of static duration are its users
            return backend;
          }};
}

}  // namespace headway::inline v0::internal
