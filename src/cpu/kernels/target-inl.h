// Chooses the one instruction set that this translation unit is compiled for.
// The build compiles every kernel source once per instruction set, each time with another HEADWAY_KERNEL_TARGET_...
#pragma once

#include <hwy/detect_targets.h>

#undef HWY_TARGET
#if defined(HEADWAY_KERNEL_TARGET_SSE4)
#define HWY_TARGET HWY_SSE4
#elif defined(HEADWAY_KERNEL_TARGET_AVX2)
#define HWY_TARGET HWY_AVX2
#elif defined(HEADWAY_KERNEL_TARGET_AVX512)
#define HWY_TARGET HWY_AVX3
#elif defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
#define HWY_TARGET HWY_AVX3_DL
#elif defined(HEADWAY_KERNEL_TARGET_NEON)
#define HWY_TARGET HWY_NEON
#else
#error "define one of HEADWAY_KERNEL_TARGET_SSE4, _AVX2, _AVX512, _AVX512_BF16, _NEON"
#endif

#include <hwy/highway.h>
// After highway.h and the choice of the target.
#include <hwy/contrib/math/math-inl.h>

// Highway 1.0.3 has no target with dot products of bf16 and of 8 bits: two more features beside those of its widest
// target make ours.
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
#undef HWY_TARGET_STR
#define HWY_TARGET_STR                                                           \
  HWY_TARGET_STR_AVX3                                                            \
  ",vpclmulqdq,avx512vbmi,avx512vbmi2,vaes,avxvnni,avx512bitalg,avx512vpopcntdq" \
  ",avx512bf16,avx512vnni"
#endif

namespace headway::inline v0::internal::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;  // Highway's own functions, in every kernel
}  // namespace headway::inline v0::internal::HWY_NAMESPACE
