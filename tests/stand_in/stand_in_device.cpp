// A device without hardware: the CPU's kernels behind addresses that no processor accepts, so that code which touches
// a device's memory from the host crashes, and a host tensor that reaches the device is refused. Loaded in place of
// libheadway_cuda.so, it lets tests of devices run where there is no GPU.
#include <cstdlib>
#include <cstring>

#include "backend/cuda_library.h"
#include "base/check.h"
#include "headway/ops.h"

namespace headway::inline v0::internal {
namespace {

thread_local bool replaying = false;

constexpr std::uintptr_t kMark = std::uintptr_t{1} << 60;  // makes an address non-canonical

template <typename T>
T* host(T* marked) {
  if (marked == nullptr) return nullptr;
  const auto bits = reinterpret_cast<std::uintptr_t>(marked);
  check((bits & kMark) != 0, "stand-in device: an address of the host came");
  return reinterpret_cast<T*>(bits & ~kMark);
}

Tensor host(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  check(!tensor.device().is_cpu(), "stand-in device: a tensor of the host came: ", tensor);
  void* data = tensor.element_count() > 0 ? host(tensor.raw_data()) : nullptr;
  return Tensor::wrap(data, tensor.shape(), tensor.strides(), tensor.dtype());
}

std::vector<ParameterSpan> host(std::span<const ParameterSpan> spans) {
  std::vector<ParameterSpan> all(spans.begin(), spans.end());
  for (ParameterSpan& span : all) {
    span.value = host(span.value);
    span.master = static_cast<float*>(host(span.master));
    span.gradient = host(span.gradient);
    span.first = host(span.first);
    span.second = host(span.second);
    span.largest = host(span.largest);
  }
  return all;
}

AttentionProblem host(AttentionProblem problem) {
  for (Tensor* tensor : {&problem.query, &problem.key, &problem.value, &problem.mask, &problem.bias}) {
    *tensor = host(*tensor);
  }
  return problem;
}

CrossEntropyRows host(CrossEntropyRows rows) {
  for (Tensor* tensor : {&rows.logits, &rows.targets, &rows.logsumexp}) *tensor = host(*tensor);
  return rows;
}

// A task with the named members as the host's addresses.
template <typename Task, typename... Members>
Task with_host(Task task, Members Task::*... members) {
  ((task.*members = host(task.*members)), ...);
  return task;
}

CacheAppend host(const CacheAppend& task) {
  return with_host(task, &CacheAppend::projected, &CacheAppend::positions, &CacheAppend::entries, &CacheAppend::cache,
                   &CacheAppend::origins, &CacheAppend::query_norm, &CacheAppend::key_norm, &CacheAppend::rotation);
}

TopTokens host(const TopTokens& top) { return {host(top.tokens), host(top.logits), host(top.logsumexp)}; }

// The work is called again: nothing is recorded. What a GPU would refuse while it records is refused here too.
class CalledWork final : public RecordedWork {
 public:
  explicit CalledWork(const std::function<void()>& work) : work_(work) {}
  void replay() override {
    replaying = true;
    try {
      work_();
    } catch (...) {
      replaying = false;
      throw;
    }
    replaying = false;
  }

 private:
  std::function<void()> work_;
};

class StandInDevice final : public Backend {
 public:
  void binary(const BinaryTask& task) override {
    cpu_.binary(with_host(task, &BinaryTask::a, &BinaryTask::b, &BinaryTask::result));
  }
  void unary(const UnaryTask& task) override { cpu_.unary(with_host(task, &UnaryTask::x, &UnaryTask::result)); }
  void scale(const ScaleTask& task) override { cpu_.scale(with_host(task, &ScaleTask::x, &ScaleTask::result)); }
  void lerp(const LerpTask& task) override { cpu_.lerp(with_host(task, &LerpTask::source, &LerpTask::target)); }
  void activate(const ActivateTask& task) override {
    cpu_.activate(with_host(task, &ActivateTask::x, &ActivateTask::result));
  }
  void activation_backward(const ActivationBackward& task) override {
    cpu_.activation_backward(with_host(task, &ActivationBackward::d_after, &ActivationBackward::saved,
                                       &ActivationBackward::d_before, &ActivationBackward::sums));
  }
  void dropout(const DropoutTask& task) override {
    cpu_.dropout(with_host(task, &DropoutTask::x, &DropoutTask::result, &DropoutTask::base));
  }
  void column_sums(const ColumnSums& task) override {
    cpu_.column_sums(with_host(task, &ColumnSums::x, &ColumnSums::sums));
  }
  void rotary(const RotaryProblem& problem) override {
    cpu_.rotary(with_host(problem, &RotaryProblem::x, &RotaryProblem::result, &RotaryProblem::positions));
  }
  void compare(const CompareTask& task) override {
    cpu_.compare(with_host(task, &CompareTask::a, &CompareTask::b, &CompareTask::result));
  }
  void select(const SelectTask& task) override {
    cpu_.select(with_host(task, &SelectTask::mask, &SelectTask::a, &SelectTask::b, &SelectTask::result));
  }
  void extreme(const ExtremeTask& task) override {
    cpu_.extreme(with_host(task, &ExtremeTask::x, &ExtremeTask::indices, &ExtremeTask::values));
  }
  void place(const PlaceTask& task) override {
    cpu_.place(with_host(task, &PlaceTask::source, &PlaceTask::indices, &PlaceTask::target));
  }

  void norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
            const NormResult& result) override {
    cpu_.norm(host(x), host(weight), host(bias), epsilon, {host(result.y), host(result.mean), host(result.inverse)});
  }
  void norm_backward(const NormBackwardInputs& inputs, const NormGradients& gradients) override {
    cpu_.norm_backward({host(inputs.x), host(inputs.weight), host(inputs.mean), host(inputs.inverse), host(inputs.d_y)},
                       {host(gradients.x), host(gradients.weight), host(gradients.bias)});
  }
  void add_norm(const AddNormInputs& inputs, const Tensor& sum, const NormResult& result) override {
    AddNormInputs here = inputs;
    for (Tensor* tensor : {&here.x, &here.y, &here.weight, &here.bias}) *tensor = host(*tensor);
    cpu_.add_norm(here, host(sum), {host(result.y), host(result.mean), host(result.inverse)});
  }
  void add_norm_backward(const AddNormBackwardInputs& inputs, const AddNormGradients& gradients) override {
    AddNormBackwardInputs here = inputs;
    for (Tensor* tensor :
         {&here.norm.x, &here.norm.weight, &here.norm.mean, &here.norm.inverse, &here.norm.d_y, &here.d_sum}) {
      *tensor = host(*tensor);
    }
    cpu_.add_norm_backward(here, {host(gradients.x), host(gradients.y), host(gradients.weight), host(gradients.bias)});
  }
  void softmax(SoftmaxKind kind, const Tensor& x, const Tensor& y) override { cpu_.softmax(kind, host(x), host(y)); }
  void softmax_backward(SoftmaxKind kind, const Tensor& y, const Tensor& d_y, const Tensor& d_x) override {
    cpu_.softmax_backward(kind, host(y), host(d_y), host(d_x));
  }
  void cross_entropy(const CrossEntropyRows& rows, double factor, bool per_row, const Tensor& loss) override {
    cpu_.cross_entropy(host(rows), factor, per_row, host(loss));
  }
  void cross_entropy_backward(const CrossEntropyRows& rows, const Tensor& d_loss, double factor,
                              const Tensor& d_logits) override {
    cpu_.cross_entropy_backward(host(rows), host(d_loss), factor, host(d_logits));
  }
  void embedding(const Tensor& weight, const std::vector<std::int64_t>& indices, const Tensor& output) override {
    cpu_.embedding(host(weight), indices, host(output));
  }
  void embedding_backward(const Tensor& d_output, const std::vector<std::int64_t>& indices,
                          const Tensor& d_weight) override {
    cpu_.embedding_backward(host(d_output), indices, host(d_weight));
  }

  bool adds_products() const override { return true; }
  void matmul(const MatmulProblem& problem) override {
    MatmulProblem here = problem;
    for (Matrix* matrix : {&here.a, &here.b, &here.result, &here.before_activation}) matrix->data = host(matrix->data);
    here.bias = host(problem.bias);
    if (!problem.accumulate || item_size(problem.result.dtype) > 2) return cpu_.matmul(here);
    // The CPU does not add to 16 bits: the product in float32, and then the sum.
    Tensor sums = Tensor::empty({problem.batch, problem.rows, problem.columns}, DType::float32);
    here.result = {static_cast<std::byte*>(sums.raw_data()), problem.columns, 1, problem.rows * problem.columns,
                   DType::float32};
    here.accumulate = false;
    cpu_.matmul(here);
    const Matrix& result = problem.result;
    Tensor target = Tensor::wrap(host(result.data), sums.shape(),
                                 {result.batch_stride, result.row_stride, result.column_stride}, result.dtype);
    target.copy_from(add(target.to(DType::float32), sums));
  }
  Tensor pack_weight(const Tensor&) override { return {}; }

  void sgd(std::span<const ParameterSpan> parameters, const SgdStep& step) override {
    cpu_.sgd(host(parameters), step);
  }
  void adam(std::span<const ParameterSpan> parameters, const AdamStep& step) override {
    cpu_.adam(host(parameters), step);
  }
  std::vector<double> sum_of_squares(std::span<const ParameterSpan> parameters) override {
    return cpu_.sum_of_squares(host(parameters));
  }

  void attention(const AttentionProblem& problem, AttentionResult& result) override {
    AttentionResult here = {host(result.output), host(result.logsumexp), host(result.weights)};
    cpu_.attention(host(problem), here);
  }
  void attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                          AttentionGradients& gradients) override {
    AttentionGradients here = {host(gradients.query), host(gradients.key), host(gradients.value), host(gradients.bias),
                               host(gradients.sinks)};
    cpu_.attention_backward(host(problem),
                            {host(inputs.output), host(inputs.logsumexp), host(inputs.d_output), host(inputs.d_weights),
                             host(inputs.d_logsumexp)},
                            here);
  }
  bool writes_attention_sums() const override { return false; }  // as on a GPU
  void merge_attention(const AttentionMerge& task) override {
    cpu_.merge_attention(with_host(task, &AttentionMerge::part, &AttentionMerge::part_logsumexp,
                                   &AttentionMerge::output, &AttentionMerge::logsumexp));
  }

  void embed_step(const EmbedStep& task) override {
    cpu_.embed_step(with_host(task, &EmbedStep::weight, &EmbedStep::tokens, &EmbedStep::positions, &EmbedStep::position,
                              &EmbedStep::result));
  }
  void linear_step(const LinearStep& task) override {
    LinearStep here = with_host(task, &LinearStep::x, &LinearStep::weight, &LinearStep::packed, &LinearStep::bias,
                                &LinearStep::added, &LinearStep::result);
    here.norm.weight = host(task.norm.weight);
    here.norm.bias = host(task.norm.bias);
    cpu_.linear_step(here);
  }
  void cache_append(const CacheAppend& task) override { cpu_.cache_append(host(task)); }
  void cache_attention(const CacheAttention& task) override {
    CacheAttention here = with_host(task, &CacheAttention::query, &CacheAttention::cache, &CacheAttention::origins,
                                    &CacheAttention::lengths, &CacheAttention::result);
    here.append = host(task.append);
    here.scores = with_host(task.scores, &StepScores::alibi_slopes, &StepScores::distance_bias, &StepScores::sinks);
    cpu_.cache_attention(here);
  }
  void top_tokens(const TopTask& task) override { cpu_.top_tokens({host(task.logits), task.excluded, host(task.top)}); }
  void sample_tokens(const SampleTask& task) override {
    SampleTask here = with_host(task, &SampleTask::logits, &SampleTask::sequences, &SampleTask::step);
    here.top = host(task.top);
    cpu_.sample_tokens(here);
  }
  void take_best(const TakeBest& task) override {
    cpu_.take_best({host(task.top),
                    host(task.newest),
                    {host(task.history.tokens), host(task.history.scores)},
                    host(task.positions),
                    host(task.step)});
  }
  void gather_rows(const GatherRows& task) override {
    cpu_.gather_rows({host(task.source), host(task.indices), host(task.result)});
  }

  MemoryBlock allocate(std::size_t bytes) override {
    if (bytes == 0) return {};
    constexpr std::size_t kAlignment = 256;
    void* memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    check(memory != nullptr, "stand-in device: no memory for ", bytes, " bytes");
    return {.data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(memory) | kMark), .bytes = bytes};
  }
  MemoryBlock allocate_zeroed(std::size_t bytes) override {
    const MemoryBlock block = allocate(bytes);
    if (bytes > 0) std::memset(host(block.data), 0, bytes);
    return block;
  }
  void release(const MemoryBlock& block) noexcept override {
    if (block.data != nullptr) std::free(host(block.data));
  }
  void copy_to_device(void* target, const void* source, std::size_t bytes) override {
    check(!replaying, "stand-in device: recorded work copies from the host");
    if (bytes > 0) std::memcpy(host(target), source, bytes);
  }
  void copy_to_host(void* target, const void* source, std::size_t bytes) override {
    check(!replaying, "stand-in device: recorded work copies to the host");
    if (bytes > 0) std::memcpy(target, host(source), bytes);
  }
  void strided_copy(const StridedTarget& target, const StridedSource& source, const Shape& shape) override {
    cpu_.strided_copy({host(target.data), target.strides, target.dtype},
                      {host(source.data), source.strides, source.dtype}, shape);
  }
  void fill(const StridedTarget& target, const Shape& shape, double value) override {
    check(!replaying, "stand-in device: recorded work copies from the host");
    cpu_.fill({host(target.data), target.strides, target.dtype}, shape, value);
  }
  void middle_sum(const MiddleSum& task) override {
    cpu_.middle_sum(with_host(task, &MiddleSum::x, &MiddleSum::target));
  }
  void synchronize() override {}
  void set_stream(void* stream) override { stream_ = stream; }
  void* stream() override { return stream_; }
  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override {
    return std::make_unique<CalledWork>(work);
  }
  std::string description() override { return "a stand-in for a GPU"; }

 private:
  Backend& cpu_ = backend_of(Device::cpu());
  void* stream_ = nullptr;
};

}  // namespace
}  // namespace headway::inline v0::internal

extern "C" HEADWAY_API const char* headway_cuda_interface() { return headway::internal::kInterfaceHash; }

extern "C" HEADWAY_API void headway_cuda_devices(headway::internal::DeviceList* devices) {
  static headway::internal::StandInDevice device;
  *devices = {.problem = "", .count = 1, .backend = [](int) -> headway::internal::Backend* { return &device; }};
}
