// The GPUs as backends of the operations: every call goes to the function of its name, with its GPU made current.
#include <cuda_runtime.h>

#include <memory>
#include <string>
#include <vector>

#include "backend/add_norm.h"
#include "backend/cuda_library.h"
#include "cuda/attention.h"
#include "cuda/compare.h"
#include "cuda/decoding.h"
#include "cuda/launch.h"
#include "cuda/matmul.h"
#include "cuda/memory.h"
#include "cuda/middle_sum.h"
#include "cuda/optimizer.h"
#include "cuda/pointwise.h"
#include "cuda/recording.h"
#include "cuda/rowwise.h"
#include "cuda/strided_copy.h"

namespace headway::inline v0::internal::cuda {
namespace {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int index) : index_(index) {}

  void binary(const BinaryTask& task) override { on_gpu().call(cuda::binary, task); }
  void unary(const UnaryTask& task) override { on_gpu().call(cuda::unary, task); }
  void scale(const ScaleTask& task) override { on_gpu().call(cuda::scale, task); }
  void lerp(const LerpTask& task) override { on_gpu().call(cuda::lerp, task); }
  void activate(const ActivateTask& task) override { on_gpu().call(cuda::activate, task); }
  void activation_backward(const ActivationBackward& task) override { on_gpu().call(cuda::activation_backward, task); }
  void dropout(const DropoutTask& task) override { on_gpu().call(cuda::dropout, task); }
  void column_sums(const ColumnSums& task) override { on_gpu().call(cuda::column_sums, task); }
  void rotary(const RotaryProblem& problem) override { on_gpu().call(cuda::rotary, problem); }
  void compare(const CompareTask& task) override { on_gpu().call(cuda::compare, task); }
  void select(const SelectTask& task) override { on_gpu().call(cuda::select, task); }
  void extreme(const ExtremeTask& task) override { on_gpu().call(cuda::extreme, task); }
  void place(const PlaceTask& task) override { on_gpu().call(cuda::place, task); }

  void norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
            const NormResult& result) override {
    on_gpu().call(cuda::norm, x, weight, bias, epsilon, result);
  }
  void norm_backward(const NormBackwardInputs& inputs, const NormGradients& gradients) override {
    on_gpu().call(cuda::norm_backward, inputs, gradients);
  }
  void add_norm(const AddNormInputs& inputs, const Tensor& sum, const NormResult& result) override {
    if (!on_gpu().call(cuda::add_norm, inputs, sum, result)) add_norm_in_steps(*this, inputs, sum, result);
  }
  void add_norm_backward(const AddNormBackwardInputs& inputs, const AddNormGradients& gradients) override {
    if (!on_gpu().call(cuda::add_norm_backward, inputs, gradients)) {
      add_norm_backward_in_steps(*this, inputs, gradients);
    }
  }
  void softmax(SoftmaxKind kind, const Tensor& x, const Tensor& y) override {
    on_gpu().call(cuda::softmax, kind, x, y);
  }
  void softmax_backward(SoftmaxKind kind, const Tensor& y, const Tensor& d_y, const Tensor& d_x) override {
    on_gpu().call(cuda::softmax_backward, kind, y, d_y, d_x);
  }
  void cross_entropy(const CrossEntropyRows& rows, double factor, bool per_row, const Tensor& loss) override {
    on_gpu().call(cuda::cross_entropy, rows, factor, per_row, loss);
  }
  void cross_entropy_backward(const CrossEntropyRows& rows, const Tensor& d_loss, double factor,
                              const Tensor& d_logits) override {
    on_gpu().call(cuda::cross_entropy_backward, rows, d_loss, factor, d_logits);
  }
  void embedding(const Tensor& weight, const std::vector<std::int64_t>& indices, const Tensor& output) override {
    on_gpu().call(cuda::embedding, weight, indices, output);
  }
  void embedding_backward(const Tensor& d_output, const std::vector<std::int64_t>& indices,
                          const Tensor& d_weight) override {
    on_gpu().call(cuda::embedding_backward, d_output, indices, d_weight);
  }

  void matmul(const MatmulProblem& problem) override { on_gpu().call(cuda::matmul, problem); }
  bool adds_products() const override { return true; }
  Tensor pack_weight(const Tensor&) override { return {}; }

  void sgd(std::span<const ParameterSpan> parameters, const SgdStep& step) override {
    on_gpu().call(cuda::sgd, parameters, step);
  }
  void adam(std::span<const ParameterSpan> parameters, const AdamStep& step) override {
    on_gpu().call(cuda::adam, parameters, step);
  }
  std::vector<double> sum_of_squares(std::span<const ParameterSpan> parameters) override {
    return on_gpu().call(cuda::sum_of_squares, parameters);
  }

  void attention(const AttentionProblem& problem, AttentionResult& result) override {
    on_gpu().call(cuda::attention, problem, result);
  }
  void attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                          AttentionGradients& gradients) override {
    on_gpu().call(cuda::attention_backward, problem, inputs, gradients);
  }

  void embed_step(const EmbedStep& task) override { on_gpu().call(cuda::embed_step, task); }
  void cache_attention(const CacheAttention& task) override { on_gpu().call(cuda::cache_attention, task); }
  void top_tokens(const TopTask& task) override { on_gpu().call(cuda::top_tokens, task); }
  void take_best(const TakeBest& task) override { on_gpu().call(cuda::take_best, task); }
  void gather_rows(const GatherRows& task) override { on_gpu().call(cuda::gather_rows, task); }

  MemoryBlock allocate(std::size_t bytes) override {
    return {.data = on_gpu().call(cuda::allocate, bytes), .bytes = bytes};
  }
  MemoryBlock allocate_zeroed(std::size_t bytes) override {
    const OnGpu here = on_gpu();
    const MemoryBlock block = {.data = here.call(cuda::allocate, bytes), .bytes = bytes};
    here.call(cuda::set_zero, block.data, bytes);
    return block;
  }
  void release(const MemoryBlock& block) noexcept override {
    int previous = 0;
    if (cudaGetDevice(&previous) != cudaSuccess || cudaSetDevice(index_) != cudaSuccess) return;
    cuda::release(block.data);
    cudaSetDevice(previous);
  }
  void copy_to_device(void* target, const void* source, std::size_t bytes) override {
    on_gpu().call(cuda::copy_to_device, target, source, bytes);
  }
  void copy_to_host(void* target, const void* source, std::size_t bytes) override {
    on_gpu().call(cuda::copy_to_host, target, source, bytes);
  }
  void strided_copy(const StridedTarget& target, const StridedSource& source, const Shape& shape) override {
    on_gpu().call(cuda::strided_copy, target, source, shape);
  }
  void fill(const StridedTarget& target, const Shape& shape, double value) override {
    const Tensor one = Tensor::full({}, value, target.dtype).to({.kind = Device::Kind::cuda, .index = index_});
    strided_copy(target, {one.raw_data(), Shape::filled(shape.rank(), 0), target.dtype}, shape);
  }
  void middle_sum(const MiddleSum& task) override { on_gpu().call(cuda::middle_sum, task); }
  void synchronize() override { on_gpu().call(cuda::synchronize); }
  void set_stream(void* stream) override { on_gpu().call(cuda::set_stream, stream); }
  void* stream() override { return on_gpu().call(cuda::stream); }
  std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override {
    return on_gpu().call(cuda::record, work);
  }

  std::string description() override {
    const OnGpu here = on_gpu();
    cudaDeviceProp properties;
    check_cuda(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
    constexpr std::size_t kGibibyte = std::size_t{1} << 30;
    return std::string(properties.name) + ", " + std::to_string(properties.totalGlobalMem / kGibibyte) +
           " GiB, compute capability " + std::to_string(properties.major) + "." + std::to_string(properties.minor);
  }

 private:
  // Makes the GPU current for one call, and the caller's again after it.
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

    template <typename Result, typename... Parameters, typename... Arguments>
    Result call(Result (*function)(Parameters...), Arguments&&... arguments) const {
      return function(std::forward<Arguments>(arguments)...);
    }

   private:
    int index_;
    int previous_ = 0;
  };
  OnGpu on_gpu() const { return OnGpu(index_); }

  int index_;
};

// One backend for each GPU, for as long as the process lives.
struct Gpus {
  std::string problem;  // empty where there are any
  std::vector<std::unique_ptr<CudaBackend>> backends;

  Gpus() {
    int count = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
      problem =
          std::string("no GPU can be used: ") + cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error);
      return;
    }
    for (int index = 0; index < count; ++index) backends.push_back(std::make_unique<CudaBackend>(index));
  }
};

const Gpus& gpus() {
  static const auto* all = new Gpus;
  return *all;
}

Backend* backend_at(int index) { return gpus().backends[static_cast<std::size_t>(index)].get(); }

}  // namespace
}  // namespace headway::inline v0::internal::cuda

extern "C" HEADWAY_API const char* headway_cuda_interface() { return headway::internal::kInterfaceHash; }

extern "C" HEADWAY_API headway::internal::DeviceList headway_cuda_devices() {
  const headway::internal::cuda::Gpus& gpus = headway::internal::cuda::gpus();
  return {.problem = gpus.problem.c_str(),
          .count = static_cast<int>(gpus.backends.size()),
          .backend = headway::internal::cuda::backend_at};
}
