#include "cpu/isa.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "cpu/kernels/kernel_set.h"
#include "headway/info.h"
#include "headway/version.h"

namespace headway::inline v0 {
namespace internal::cpu {
namespace {

struct InstructionSet {
  const char* name;
  KernelSet kernels;
};

// The instruction sets that the machine supports and that this build has (HEADWAY_INSTRUCTION_SETS), the best one last.
std::vector<InstructionSet> find_instruction_sets() {
  std::vector<InstructionSet> found;
#if defined(HEADWAY_X86)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul")) return found;
#if !defined(HEADWAY_WITHOUT_SSE4)
  found.push_back({"sse4", N_SSE4::kernel_set()});
#endif
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
    return found;
#if !defined(HEADWAY_WITHOUT_AVX2)
  found.push_back({"avx2", N_AVX2::kernel_set()});
#endif
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl")) {
    return found;
  }
#if !defined(HEADWAY_WITHOUT_AVX512)
  found.push_back({"avx512", N_AVX3::kernel_set()});
#endif
  if (!__builtin_cpu_supports("avx512vnni") || !__builtin_cpu_supports("avx512vbmi2") ||
      !__builtin_cpu_supports("vpclmulqdq") || !__builtin_cpu_supports("avx512bitalg")) {
    return found;
  }
#if !defined(HEADWAY_WITHOUT_AVX512_BF16)
  // The dot products of 8 bits, then those of bf16 join the float kernels of avx512.
  const KernelSet dot_products = N_AVX3_DL::kernel_set();
  KernelSet joined = N_AVX3::kernel_set();
  joined.quantized = dot_products.quantized;
  found.push_back({"avx512_vnni", joined});
  if (!__builtin_cpu_supports("avx512bf16")) return found;
  joined.bfloat16 = dot_products.bfloat16;
  found.push_back({"avx512_bf16", joined});
#endif
#else
  found.push_back({"neon", N_NEON::kernel_set()});
#endif
  return found;
}

// Never destroyed: static objects and detached threads may compute to the end of the process.
const std::vector<InstructionSet>& all_instruction_sets() {
  static const auto* const sets = new std::vector<InstructionSet>(find_instruction_sets());
  return *sets;
}

const InstructionSet& choose() {
  const auto& sets = all_instruction_sets();
  check(!sets.empty(),
        "this processor has none of the instruction sets of this build, of which SSE4.2 is the least there can be");
  const char* wanted = std::getenv("HEADWAY_ISA");
  if (!wanted || !*wanted) return sets.back();
  std::string names;
  for (const InstructionSet& set : sets) {
    if (set.name == std::string(wanted)) return set;
    names += names.empty() ? set.name : std::string(", ") + set.name;
  }
  check(false, "HEADWAY_ISA is \"", wanted, "\", expected one that this machine runs: ", names);
  return sets.back();
}

const InstructionSet& current() {
  static const InstructionSet& set = choose();
  return set;
}

const ProductKernels& product_kernels(DType dtype) {
  const KernelSet& kernels = current().kernels;
  if (dtype == DType::float64) return kernels.float64;
  return dtype == DType::bfloat16 ? kernels.bfloat16 : kernels.float32;
}

}  // namespace

const AttentionKernels& attention_kernels(DType dtype) { return product_kernels(dtype).attention; }
const MatmulKernels& matmul_kernels(DType dtype) { return product_kernels(dtype).matmul; }
const PointwiseKernels& pointwise_kernels() { return current().kernels.pointwise; }
const RowwiseKernels& rowwise_kernels() { return current().kernels.rowwise; }
const OptimizerKernels& optimizer_kernels() { return current().kernels.optimizer; }
const DecodingKernels& decoding_kernels() { return current().kernels.decoding; }
const QuantizedKernels& quantized_kernels() { return current().kernels.quantized; }

}  // namespace internal::cpu

std::string instruction_set() { return internal::cpu::current().name; }

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const auto& set : internal::cpu::all_instruction_sets()) names.emplace_back(set.name);
  return names;
}

std::string version() { return HEADWAY_VERSION; }

}  // namespace headway::inline v0
