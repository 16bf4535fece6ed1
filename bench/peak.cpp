#include "peak.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

// 12 independent sums hide the latency of two multiply-adds a cycle and leave registers for the operands.
using Accumulators = std::make_index_sequence<12>;
constexpr double kAccumulators = Accumulators::size();
constexpr std::size_t kReadBytes = std::size_t{512} << 20;
constexpr double kSampleSeconds = 0.003;

// A loop runs `iterations` times over all accumulators; `flops` is what one iteration does.
struct PeakLoop {
  void (*run)(std::int64_t iterations);
  double flops;
};

// A value that the compiler cannot know, so that it computes what it could otherwise foresee.
inline float opaque(float value) {
  const volatile float hidden = value;
  return hidden;
}

// Keeps a value alive without storing it anywhere.
template <typename T>
inline void keep(const T& value) {
  asm volatile("" : : "m"(value) : "memory");
}

#if defined(__x86_64__)

template <std::size_t... I>
__attribute__((target("avx512f"))) void avx512_loop(std::index_sequence<I...>, std::int64_t iterations) {
  const __m512 factor = _mm512_set1_ps(opaque(0.5f)), term = _mm512_set1_ps(opaque(1.0f));
  __m512 sums[] = {_mm512_set1_ps(static_cast<float>(I))...};
  for (std::int64_t i = 0; i < iterations; ++i) ((sums[I] = _mm512_fmadd_ps(sums[I], factor, term)), ...);
  keep(sums);
}

template <std::size_t... I>
__attribute__((target("avx2,fma"))) void avx2_loop(std::index_sequence<I...>, std::int64_t iterations) {
  const __m256 factor = _mm256_set1_ps(opaque(0.5f)), term = _mm256_set1_ps(opaque(1.0f));
  __m256 sums[] = {_mm256_set1_ps(static_cast<float>(I))...};
  for (std::int64_t i = 0; i < iterations; ++i) ((sums[I] = _mm256_fmadd_ps(sums[I], factor, term)), ...);
  keep(sums);
}

// Multiplication and addition apart, as a machine without FMA has to do it.
template <std::size_t... I>
void sse_loop(std::index_sequence<I...>, std::int64_t iterations) {
  const __m128 factor = _mm_set1_ps(opaque(0.5f)), term = _mm_set1_ps(opaque(1.0f));
  __m128 sums[] = {_mm_set1_ps(static_cast<float>(I))...};
  for (std::int64_t i = 0; i < iterations; ++i) ((sums[I] = _mm_add_ps(_mm_mul_ps(sums[I], factor), term)), ...);
  keep(sums);
}

template <std::size_t... I>
__attribute__((target("avx512f,avx512bf16"))) void bfloat16_loop(std::index_sequence<I...>, std::int64_t iterations) {
  const __m512bh left = _mm512_cvtne2ps_pbh(_mm512_set1_ps(opaque(0.5f)), _mm512_set1_ps(opaque(0.5f)));
  const __m512bh right = _mm512_cvtne2ps_pbh(_mm512_set1_ps(opaque(0.25f)), _mm512_set1_ps(opaque(-0.25f)));
  __m512 sums[] = {_mm512_set1_ps(static_cast<float>(I))...};
  for (std::int64_t i = 0; i < iterations; ++i) ((sums[I] = _mm512_dpbf16_ps(sums[I], left, right)), ...);
  keep(sums);
}

template <std::size_t... I>
__attribute__((target("avx512f,avx512vnni"))) void vnni_loop(std::index_sequence<I...>, std::int64_t iterations) {
  const __m512i left = _mm512_set1_epi32(static_cast<int>(opaque(1.0f))), right = left;
  __m512i sums[] = {_mm512_set1_epi32(static_cast<int>(I))...};
  for (std::int64_t i = 0; i < iterations; ++i) ((sums[I] = _mm512_dpbusd_epi32(sums[I], left, right)), ...);
  keep(sums);
}

template <std::size_t... I>
__attribute__((target("avx2"))) void words_loop(std::index_sequence<I...>, std::int64_t iterations) {
  __m256i left = _mm256_set1_epi32(static_cast<int>(opaque(1.0f)));
  __m256i sums[] = {_mm256_set1_epi32(static_cast<int>(I))...};
  for (std::int64_t i = 0; i < iterations; ++i) {
    asm volatile("" : "+x"(left));  // the product is computed again in every iteration
    ((sums[I] = _mm256_add_epi32(sums[I], _mm256_madd_epi16(left, sums[I]))), ...);
  }
  keep(sums);
}

__attribute__((target("avx2"))) float sum_avx2(const float* data, std::size_t count) {
  __m256 sums[4] = {};
  for (std::size_t i = 0; i + 32 <= count; i += 32) {
    for (std::size_t j = 0; j < 4; ++j) sums[j] = _mm256_add_ps(sums[j], _mm256_loadu_ps(data + i + 8 * j));
  }
  const __m256 total = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
  return _mm256_cvtss_f32(total);
}

PeakLoop float32_loop() {
  if (__builtin_cpu_supports("avx512f"))
    return {[](std::int64_t n) { avx512_loop(Accumulators(), n); }, 32 * kAccumulators};
  if (__builtin_cpu_supports("fma")) return {[](std::int64_t n) { avx2_loop(Accumulators(), n); }, 16 * kAccumulators};
  return {[](std::int64_t n) { sse_loop(Accumulators(), n); }, 8 * kAccumulators};
}

PeakLoop bfloat16_loop() {
  return {[](std::int64_t n) { bfloat16_loop(Accumulators(), n); }, 64 * kAccumulators};
}

PeakLoop int8_loop() {
  if (__builtin_cpu_supports("avx512vnni"))
    return {[](std::int64_t n) { vnni_loop(Accumulators(), n); }, 128 * kAccumulators};
  if (__builtin_cpu_supports("avx2"))
    return {[](std::int64_t n) { words_loop(Accumulators(), n); }, 32 * kAccumulators};
  return float32_loop();
}

#elif defined(__aarch64__)

template <std::size_t... I>
void neon_loop(std::index_sequence<I...>, std::int64_t iterations) {
  const float32x4_t left = vdupq_n_f32(opaque(0.5f)), right = vdupq_n_f32(opaque(0.0f));
  float32x4_t sums[] = {vdupq_n_f32(static_cast<float>(I))...};
  for (std::int64_t i = 0; i < iterations; ++i) ((sums[I] = vfmaq_f32(sums[I], left, right)), ...);
  keep(sums);
}

PeakLoop float32_loop() {
  return {[](std::int64_t n) { neon_loop(Accumulators(), n); }, 8 * kAccumulators};
}

PeakLoop bfloat16_loop() { return float32_loop(); }

PeakLoop int8_loop() {
  return {[](std::int64_t iterations) {
            const int8x8_t left = vdup_n_s8(static_cast<std::int8_t>(opaque(1.0f)));
            int32x4_t sums[static_cast<std::size_t>(kAccumulators)] = {};
            for (std::int64_t i = 0; i < iterations; ++i) {
              for (auto& sum : sums) sum = vpadalq_s16(sum, vmull_s8(left, vreinterpret_s8_s32(vget_low_s32(sum))));
            }
            keep(sums);
          },
          16 * kAccumulators};
}

#endif

// The compiler makes vectors of the inner loop.
float sum_plain(const float* data, std::size_t count) {
  float sums[16] = {};
  for (std::size_t i = 0; i + 16 <= count; i += 16) {
    for (std::size_t j = 0; j < 16; ++j) sums[j] += data[i + j];
  }
  return sums[0];
}

float sum(const float* data, std::size_t count) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return sum_avx2(data, count);
#endif
  return sum_plain(data, count);
}

// Ties the calling thread to the index-th processor that the process may use: two fresh threads often start on one core
// and would share it for longer than a sample takes.
void pin_to_processor(int index) {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed) || index-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(0, sizeof(one), &one);
    return;
  }
#endif
}

// Runs work(thread) on threads of its own from a common start; returns the seconds until the last one ended.
double run_together(int threads, const std::function<void(int)>& work) {
  std::atomic<int> waiting = threads;
  std::vector<Clock::time_point> starts(static_cast<std::size_t>(threads)), ends(starts);
  const auto body = [&](int thread) {
    const auto i = static_cast<std::size_t>(thread);
    pin_to_processor(thread);
    waiting.fetch_sub(1);
    while (waiting.load(std::memory_order_acquire) > 0) {
    }
    starts[i] = Clock::now();
    work(thread);
    ends[i] = Clock::now();
  };
  std::vector<std::thread> workers;
  for (int thread = 0; thread < threads; ++thread) workers.emplace_back(body, thread);
  for (auto& worker : workers) worker.join();
  const auto start = *std::min_element(starts.begin(), starts.end());
  return std::chrono::duration<double>(*std::max_element(ends.begin(), ends.end()) - start).count();
}

double loop_peak(const PeakLoop& loop, int threads) {
  // The first run finds how many iterations fill a sample, and wakes the vector units up.
  constexpr std::int64_t kProbe = 20000;
  loop.run(kProbe);
  const double probe_seconds = run_together(1, [&](int) { loop.run(kProbe); });
  const auto iterations = static_cast<std::int64_t>(kProbe * kSampleSeconds / probe_seconds) + 1;
  const double seconds = run_together(threads, [&](int) { loop.run(iterations); });
  return loop.flops * static_cast<double>(iterations) * threads / seconds * 1e-9;
}

}  // namespace

double float32_peak(int threads) { return loop_peak(float32_loop(), threads); }

bool has_bfloat16_dot() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

double bfloat16_peak(int threads) { return loop_peak(has_bfloat16_dot() ? bfloat16_loop() : float32_loop(), threads); }

double int8_peak(int threads) { return loop_peak(int8_loop(), threads); }

// Filled with ones: pages that were never written to would all be one page of zeros.
ReadBandwidth::ReadBandwidth() : buffer_(kReadBytes / sizeof(float), 1.0f) {}

double ReadBandwidth::measure(int threads) const {
  const std::size_t share = buffer_.size() / static_cast<std::size_t>(threads);
  std::vector<float> sums(static_cast<std::size_t>(threads));
  const double seconds = run_together(threads, [&](int thread) {
    sums[static_cast<std::size_t>(thread)] = sum(buffer_.data() + static_cast<std::size_t>(thread) * share, share);
  });
  keep(*sums.data());
  return static_cast<double>(share * static_cast<std::size_t>(threads) * sizeof(float)) / seconds * 1e-9;
}

}  // namespace bench
