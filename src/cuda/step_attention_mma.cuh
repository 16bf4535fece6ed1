// Attention in a decoding step for 16-bit elements, by products of warps (mma_sync.cuh). A warp takes the tokens of a
// row in steps of 16, straight from the cache into the registers of the products, for up to eight query heads
// that share a key/value head. The warps of a block and of a cluster take every n-th step of a row; each sends what it
// has to the block that joins those columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cuda/decode_kernel.cuh"
#include "cuda/step_attention.cuh"

namespace headway::inline v0::internal::cuda {

inline constexpr int kMmaHeads = 8;  // query heads of a block at most

// What decode_kernel.cuh knows of a warp's step.
template <typename Element, int kColumns>
struct StepShape {
  using T = Element;
  static constexpr int kDim = kColumns;  // 64, 128 or 256; what is missing is zero
  static constexpr int kTiles = 1;
  static constexpr int kKeys = 16;                        // tokens of a step
  static constexpr bool kAhead = kDim <= 128;             // registers for keys and values at once
  static constexpr int kMostWarps = kDim == 64 ? 16 : 8;  // of a block
  static constexpr int kWarpsAtOnce = kDim == 64 ? 16 : (kDim == 128 ? 12 : 8);  // on a multiprocessor
  static constexpr int kQueryStride = kDim + 32;  // in shared memory, against bank conflicts
  static constexpr int kTeam = kDim / 8;          // lanes that prepare a head
  static constexpr int kRows = kMmaHeads + 2;     // queries, the new token's key and value
};

// The shared memory of a block, in bytes. A unit is 8 columns of a head's output; a slot is a warp of the cluster.
template <class S>
struct MmaMemory {
  // rows (kRows, kQueryStride) of T, normed (kRows, kDim) float32, amounts (heads, slots) float2, and parts (own units,
  // slots, 8) float32.
  static constexpr int kNormed = S::kRows * S::kQueryStride * 2;
  static constexpr int kAmounts = kNormed + S::kRows * S::kDim * 4;

  static __host__ __device__ int parts(int heads, int slots) { return kAmounts + heads * slots * 8; }
  static __host__ __device__ int total(int heads, int head_dim, int warps, int cluster) {
    const int units = heads * head_dim / 8, own = (units + cluster - 1) / cluster, slots = warps * cluster;
    return parts(heads, slots) + own * slots * 8 * 4;
  }
};

// 16 bytes of the cache, kOffset bytes after an address; zeros where not `inside`.
template <int kOffset>
__device__ __forceinline__ uint4 load_cached(const void* address, bool inside) {
  uint4 v;
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\nmov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
      "@p ld.global.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4 + %6];\n}"
      : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
      : "l"(address), "r"(static_cast<int>(inside)), "n"(kOffset));
  return v;
}

// words[i] = 8 columns from i * kStep on; zeros where there are not as many.
template <int kStep, typename T, std::size_t kCount>
__device__ __forceinline__ void load_row(uint4 (&words)[kCount], const T* from, int columns) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    ((words[i] = load_cached<i * kStep * sizeof(T)>(from, i * kStep < columns)), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

// SeenTokens in fewer registers: a cache has at most 2^30 tokens.
struct TokenRange {
  int begin, end;
  int fresh;  // -1: none

  template <typename T>
  explicit __device__ TokenRange(const SeenTokens<T>& tokens)
      : begin(static_cast<int>(tokens.begin)),
        end(static_cast<int>(tokens.end)),
        fresh(static_cast<int>(tokens.fresh)) {}
};

// Blocks that are items = (rows, kv_heads, chunks of a group), a cluster for each.
template <class S>
class MmaStepAttention {
  using T = typename S::T;
  static constexpr int kKeys = S::kKeys;

 public:
  __device__ MmaStepAttention(const StepAttentionArguments<T>& arguments, unsigned char* shared)
      : a_(arguments),
        shared_(shared),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        warps_(static_cast<int>(blockDim.x) / kWarp),
        rank_(arguments.cluster > 1 ? cluster_rank() : 0),
        slots_(warps_ * arguments.cluster),
        slot_(warp_ * arguments.cluster + rank_) {
    const int item = static_cast<int>(blockIdx.x) / a_.cluster;
    chunk_ = item % a_.chunks;
    kv_head_ = item / a_.chunks % a_.kv_heads;
    row_ = item / a_.chunks / a_.kv_heads;
    const int left = a_.group - chunk_ * kMmaHeads;
    count_ = left < kMmaHeads ? left : kMmaHeads;
    first_head_ = kv_head_ * a_.group + chunk_ * kMmaHeads;
    stride_ = 2 * a_.kv_heads * a_.head_dim;
    keys_ = a_.cache + kv_head_ * a_.head_dim;
  }

  // Asks for the keys and values that this warp will most likely read first.
  __device__ void prefetch_tokens() const {
    constexpr int kLine = 128 / sizeof(T), kSteps = 4;
    const SeenTokens<T, true> tokens(a_, row_);
    for (int step = 0; step < kSteps; ++step) {
      const int first = first_token(static_cast<int>(tokens.begin)) + step * slots_ * kKeys;
      for (int i = lane_; i < 2 * kKeys; i += kWarp) {
        const std::int64_t t = first + i % kKeys;
        if (t < tokens.begin || t >= tokens.end) continue;
        const T* key = tokens.key(a_, t, kv_head_);
        if (key == nullptr) continue;
        const T* from = i < kKeys ? key : key + a_.kv_heads * a_.head_dim;
        for (int d = 0; d < a_.head_dim; d += kLine) prefetch(from + d);
      }
    }
  }

  __device__ void run() {
    cluster_arrive(a_.cluster);
    const int stride = slots_ * kKeys;
    int first = slot_ * kKeys;  // token of a step
    int entry = origin(first), next = origin(first + stride);
    const TokenRange tokens{SeenTokens<T>(a_, row_)};
    if (tokens.begin >= kKeys) {
      first = first_token(tokens.begin);
      entry = origin(first);
      next = origin(first + stride);
    }
    KeyWords<S> keys;
    ValueWords<S> values;
    entry = checked(tokens, first, entry);
    load(keys, first, entry);
    if constexpr (S::kAhead) load(values, first, entry);
    prepare_rows();
    __syncthreads();
    for (; first < tokens.end; first += stride) {
      float scores[kKeys / 8][4];
      const int fresh = fresh_place(tokens, first);
      const unsigned seen = __ballot_sync(0xFFFFFFFF, entry >= 0 || fresh == lane_ % kKeys);
      take_new_key(keys, fresh);
      keys.multiply(rows(), scores);
      const int ahead = checked(tokens, first + stride, next);
      next = origin(first + 2 * stride);
      S::kAhead ? load(keys, first + stride, ahead) : load(values, first, entry);
      exponentiate(scores, seen, tokens.end - 1 - first);
      take_new_value(values, fresh);
      add_product(scores, values);
      S::kAhead ? load(values, first + stride, ahead) : load(keys, first + stride, ahead);
      entry = ahead;
    }
    const int steps = (tokens.end + kKeys - 1) / kKeys - tokens.begin / kKeys;
    cluster_wait(a_.cluster);  // every block has started
    if (slot_ < steps) send_part();
    cluster_sync(a_.cluster);
    join_parts(steps < slots_ ? steps : slots_);
  }

 private:
  // Queries, then key and value of the new token: (kRows, kQueryStride).
  __device__ T* rows() const { return reinterpret_cast<T*>(shared_); }
  // The same before they are rotated: (kRows, kDim).
  __device__ float* normed() const { return reinterpret_cast<float*>(shared_ + MmaMemory<S>::kNormed); }
  // Largest exponent and sum: (heads, slots).
  __device__ float2* amounts() const { return reinterpret_cast<float2*>(shared_ + MmaMemory<S>::kAmounts); }
  // Outputs of the units that this block joins: (own units, slots, 8).
  __device__ float* parts() const {
    return reinterpret_cast<float*>(shared_ + MmaMemory<S>::parts(a_.group < kMmaHeads ? a_.group : kMmaHeads, slots_));
  }

  // The first token of the warp's first step. Steps begin at multiples of kKeys.
  __device__ int first_token(int begin) const { return (begin / kKeys + slot_) * kKeys; }

  // The entry of token first + lane % kKeys, as it is found in memory: which tokens are seen need not be known.
  __device__ int origin(int first) const {
    if (a_.append.projected == nullptr) return a_.origins[row_];
    const int t = first + lane_ % kKeys;
    return t < a_.capacity ? a_.origins[row_ * a_.capacity + t] : -1;
  }
  // The same; -1 where the token is not seen, or is not in the cache yet.
  __device__ int checked(const TokenRange& tokens, int first, int entry) const {
    const int t = first + lane_ % kKeys;
    const bool is_there = t >= tokens.begin && t < tokens.end && t != tokens.fresh;
    return is_there && entry >= 0 && entry < a_.entry_count ? entry : -1;
  }
  // The new token's place among the step's; -1: none.
  __device__ int fresh_place(const TokenRange& tokens, int first) const {
    return tokens.fresh >= first && tokens.fresh < first + kKeys ? tokens.fresh - first : -1;
  }

  // The key of token first + place, which lies in the given entry.
  __device__ const T* key_of(int first, int place, int entry) const {
    return keys_ + entry * (a_.capacity * stride_) + static_cast<std::int64_t>(first + place) * stride_;
  }

  // Which of the step's tokens a lane has: of keys t, of values n. See KeyWords and ValueWords.
  __device__ int key_place(int t) const { return 8 * t + lane_ / 4; }
  __device__ int value_place(int n) const { return 2 * (lane_ % 4) + n / 2 * 8 + n % 2; }

  __device__ void load(KeyWords<S>& keys, int first, int entries) const {
    const int column = 8 * (lane_ % 4);
#pragma unroll
    for (int t = 0; t < kKeys / 8; ++t) {
      const int entry = __shfl_sync(0xFFFFFFFF, entries, key_place(t));
      const T* from = key_of(first, key_place(t), entry) + column;
      load_row<32>(keys.at[t], from, entry < 0 ? 0 : a_.head_dim - column);
    }
  }
  __device__ void load(ValueWords<S>& values, int first, int entries) const {
    const int column = 8 * (lane_ / 4);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int entry = __shfl_sync(0xFFFFFFFF, entries, value_place(n));
      const T* from = key_of(first, value_place(n), entry) + a_.kv_heads * a_.head_dim + column;
      load_row<64>(values.at[0][n], from, entry < 0 ? 0 : a_.head_dim - column);
    }
  }

  // The new token's key and value are in shared memory.
  __device__ void take_new_key(KeyWords<S>& keys, int fresh) const {
    if (fresh < 0) return;
    const T* from = rows() + kMmaHeads * S::kQueryStride + 8 * (lane_ % 4);
#pragma unroll
    for (int t = 0; t < kKeys / 8; ++t) {
      if (key_place(t) != fresh) continue;
#pragma unroll
      for (int i = 0; i < S::kDim / 32; ++i) keys.at[t][i] = *reinterpret_cast<const uint4*>(from + 32 * i);
    }
  }
  __device__ void take_new_value(ValueWords<S>& values, int fresh) const {
    if (fresh < 0) return;
    const T* from = rows() + (kMmaHeads + 1) * S::kQueryStride + 8 * (lane_ / 4);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if (value_place(n) != fresh) continue;
#pragma unroll
      for (int p = 0; p < S::kDim / 64; ++p) values.at[0][n][p] = *reinterpret_cast<const uint4*>(from + 64 * p);
    }
  }

  // Queries, and key and value of the new token, rounded as they would be stored; kTeam lanes have a head, 8 columns
  // each. One block of a head's puts key and value into the cache, where no block looks for them in this step.
  __device__ void prepare_rows() {
    const AppendArguments<T>& append = a_.append;
    const float* rotation = nullptr;
    T* cached = nullptr;
    if (append.projected) {
      const NewToken<T> token(append, row_);
      rotation = token.rotation;
      if (token.is_inside && rank_ == 0 && chunk_ == 0) {
        cached = token.key(append, kv_head_);
        if (kv_head_ == 0 && threadIdx.x == 0 && append.origins) {
          append.origins[row_ * append.capacity + token.position] = static_cast<std::int32_t>(token.entry);
        }
      }
    }
    constexpr int kTeams = kWarp / S::kTeam;
    const int column = lane_ % S::kTeam * 8;
    for (int i = warp_ * kTeams; i < S::kRows; i += warps_ * kTeams) {
      const int row = i + lane_ / S::kTeam;
      const T* source = column < a_.head_dim ? source_of(row) : nullptr;
      Values<float, 8> x = load_values_or<8>(source, column, 0.0f);
      if (append.query_norm || append.key_norm) normalize(x, row, column);
      if (rotation) rotate(x, row, column, rotation);
      if (row >= S::kRows) continue;
      store_values<8>(x, rows() + row * S::kQueryStride + column);
      if (cached && source && row >= kMmaHeads) {
        store_values<8>(x, cached + (row - kMmaHeads) * a_.kv_heads * a_.head_dim + column);
      }
    }
  }

  // What a row of shared memory is made of; null: zeros.
  __device__ const T* source_of(int row) const {
    const AppendArguments<T>& append = a_.append;
    const T* projected = append.projected ? append.projected + row_ * append.stride : a_.query + row_ * a_.query_stride;
    if (row < count_) return projected + (first_head_ + row) * a_.head_dim;
    if (row < kMmaHeads || row >= S::kRows || !append.projected) return nullptr;
    return projected + (a_.heads + (row - kMmaHeads) * a_.kv_heads + kv_head_) * a_.head_dim;
  }

  __device__ void normalize(Values<float, 8>& x, int row, int column) const {
    float squares = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) squares += x[j] * x[j];
#pragma unroll
    for (int distance = S::kTeam / 2; distance > 0; distance /= 2) squares += exchange(squares, distance);
    const float inverse = 1 / sqrtf(squares / static_cast<float>(a_.head_dim) + a_.append.epsilon);
    const T* norm = row < kMmaHeads ? a_.append.query_norm : (row == kMmaHeads ? a_.append.key_norm : nullptr);
    if (norm == nullptr || column >= a_.head_dim) return;
    const Values<float, 8> weight = load_values<8>(norm + column);
#pragma unroll
    for (int j = 0; j < 8; ++j) x[j] = x[j] * inverse * weight[j];
  }

  // See transform_head(). Queries and keys are rotated, values are not.
  __device__ void rotate(Values<float, 8>& x, int row, int column, const float* rotation) const {
    const bool interleaved = a_.append.interleaved;
    const int half = a_.append.dims / 2, turned = row <= kMmaHeads ? 2 * half : 0;
    const auto is_first = [&](int d) { return interleaved ? d % 2 == 0 : d < half; };
    float cosines[8], sines[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int d = column + j, pair = interleaved ? d / 2 : (is_first(d) ? d : d - half);
      cosines[j] = d < turned ? rotation[pair] : 0.0f;
      sines[j] = d < turned ? rotation[half + pair] : 0.0f;
    }
    float* memory = normed() + row * S::kDim;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if (row < S::kRows) memory[column + j] = x[j];
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int d = column + j;
      if (d >= turned) break;
      const float other = memory[interleaved ? d ^ 1 : (is_first(d) ? d + half : d - half)] * sines[j];
      x[j] = x[j] * cosines[j] + (is_first(d) ? -other : other);
    }
  }

  // The exponent of 2 that a product of query and key becomes.
  __device__ float exponent(float product, int distance) const {
    if (a_.softcap == 0 && !a_.alibi_slopes && !a_.distance_bias) return product * (a_.scale * kLog2e);
    float score = product * a_.scale;
    const int head = first_head_ + (lane_ / 4 < count_ ? lane_ / 4 : 0);
    if (a_.softcap != 0) {  // tanh(x) = 1 - 2 / (e^2x + 1)
      score = a_.softcap - __fdividef(2 * a_.softcap, exp2f(score * (2 * kLog2e / a_.softcap)) + 1);
    }
    if (a_.alibi_slopes) score -= a_.alibi_slopes[head] * static_cast<float>(distance);
    if (a_.distance_bias) {
      score += a_.distance_bias[head * a_.distances + (distance < a_.distances ? distance : a_.distances - 1)];
    }
    return score * kLog2e;
  }

  // Products become weights P = 2^(exponent - largest), of tokens that are not seen 0. The lane has head lane / 4.
  // distance: of the step's first token.
  __device__ void exponentiate(float (&scores)[kKeys / 8][4], unsigned seen, int distance) {
    float found = largest_;
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      const int place = i / 2 * 8 + lane_ % 4 * 2 + i % 2;
      float& score = scores[i / 2][i % 2];
      score = seen >> place & 1 ? exponent(score, distance - place) : -INFINITY;
      found = fmaxf(found, score);
    }
    found = fmaxf(found, exchange(found, 1));
    found = fmaxf(found, exchange(found, 2));
    const float reference = power_reference(found);
    if (__any_sync(0xFFFFFFFF, found > largest_)) {
      const float factor[1] = {exp2f(largest_ - reference)};
      sum_ *= factor[0];
      outputs_.multiply(factor);
      largest_ = found;
    }
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      float& score = scores[i / 2][i % 2];
      score = exp2f(score - reference);
      sum_ += score;
    }
  }

  // O^T += V^T P^T. The weights are rounded for the product, and so is what this leaves of them.
  __device__ void add_product(const float (&weights)[kKeys / 8][4], const ValueWords<S>& values) {
    std::uint32_t rounded[2], rest[2];
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      const float x = weights[t][0], y = weights[t][1];
      rounded[t] = pack<T>(x, y);
      rest[t] = pack<T>(x - to_compute(from_compute<T>(x)), y - to_compute(from_compute<T>(y)));
    }
#pragma unroll
    for (int p = 0; p < S::kDim / 64; ++p) {
      const auto& v = values.at[0];
      const auto add = [&](int u, std::uint32_t v0, std::uint32_t v1, std::uint32_t v8, std::uint32_t v9) {
        const std::uint32_t a0 = low_halves(v0, v1), a1 = high_halves(v0, v1);
        const std::uint32_t a2 = low_halves(v8, v9), a3 = high_halves(v8, v9);
        multiply_add<T>(outputs_.at[p][u][0], a0, a1, a2, a3, rounded[0], rounded[1]);
        multiply_add<T>(outputs_.at[p][u][0], a0, a1, a2, a3, rest[0], rest[1]);
      };
      add(0, v[0][p].x, v[1][p].x, v[2][p].x, v[3][p].x);
      add(1, v[0][p].y, v[1][p].y, v[2][p].y, v[3][p].y);
      add(2, v[0][p].z, v[1][p].z, v[2][p].z, v[3][p].z);
      add(3, v[0][p].w, v[1][p].w, v[2][p].w, v[3][p].w);
    }
  }

  // Unit u is joined by the block u % cluster; largest exponents and sums go to all.
  __device__ void send_part() {
    sum_ += exchange(sum_, 1);
    sum_ += exchange(sum_, 2);
    const int shift = __ffs(a_.cluster) - 1, head = lane_ / 4;
    if (head < count_) {
      for (int rank = lane_ % 4; rank < a_.cluster; rank += 4) {
        store_of_rank(amounts() + head * slots_ + slot_, rank, a_.cluster, {largest_, sum_});
      }
    }
#pragma unroll
    for (int p = 0; p < S::kDim / 64; ++p) {
      const int column = 64 * p + 8 * (lane_ / 4);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int head_of_output = lane_ % 4 * 2 + e;
        if (head_of_output >= count_ || column >= a_.head_dim) continue;
        const int unit = (head_of_output * a_.head_dim + column) / 8, rank = unit & (a_.cluster - 1);
        auto* to = reinterpret_cast<float4*>(parts() + ((unit >> shift) * slots_ + slot_) * 8);
        const auto& at = outputs_.at[p];
        store_of_rank(to, rank, a_.cluster, {at[0][0][e], at[0][0][e + 2], at[1][0][e], at[1][0][e + 2]});
        store_of_rank(to + 1, rank, a_.cluster, {at[2][0][e], at[2][0][e + 2], at[3][0][e], at[3][0][e + 2]});
      }
    }
  }

  // A warp has a unit: lane % 8 is the column, lane / 8 the first of every four slots.
  __device__ void join_parts(int slots) const {
    const int units = count_ * a_.head_dim / 8, place = lane_ % 8;
    for (int own = warp_; own * a_.cluster + rank_ < units; own += warps_) {
      const int column = 8 * (own * a_.cluster + rank_), head = column / a_.head_dim;
      const float sink = a_.sinks ? a_.sinks[first_head_ + head] * kLog2e : -INFINITY;
      const float2* amount_of = amounts() + head * slots_;        // (slots)
      const float* part_of = parts() + own * slots_ * 8 + place;  // (slots, 8)
      float largest = sink, sum = 0, output = 0;
      for (int slot = lane_ / 8; slot < slots; slot += 4) largest = fmaxf(largest, amount_of[slot].x);
      largest = fmaxf(largest, exchange(largest, 8));
      largest = fmaxf(largest, exchange(largest, 16));
      const float reference = power_reference(largest);
#pragma unroll 4
      for (int slot = lane_ / 8; slot < slots; slot += 4) {
        const float2 amount = amount_of[slot];
        const float factor = exp2f(amount.x - reference);
        sum += amount.y * factor;
        output += part_of[slot * 8] * factor;
      }
#pragma unroll
      for (int distance = 8; distance < kWarp; distance *= 2) {
        sum += exchange(sum, distance);
        output += exchange(output, distance);
      }
      sum += exp2f(sink - reference);
      if (lane_ >= 8) continue;
      T* result = a_.result + (row_ * a_.heads + first_head_) * a_.head_dim + column;
      result[place] = from_compute<T>(sum == 0 ? 0.0f : output / sum);
    }
  }

  const StepAttentionArguments<T>& a_;
  unsigned char* const shared_;
  const int lane_, warp_, warps_, rank_, slots_, slot_;
  int chunk_, kv_head_;
  std::int64_t row_;
  int count_;  // query heads of this block
  int first_head_;
  int stride_;     // between tokens of the cache
  const T* keys_;  // of the cache, at this key/value head
  // What this warp has summed: of P, each lane its tokens of its head, and of P times values.
  float largest_ = -INFINITY;
  float sum_ = 0;
  DecodeOutputs<S> outputs_ = {};
};

template <class S>
__global__ void __launch_bounds__(S::kMostWarps* kWarp)
    mma_step_attention_kernel(const __grid_constant__ StepAttentionArguments<typename S::T> a) {
  extern __shared__ uint4 attention_memory[];
  MmaStepAttention<S> attention(a, reinterpret_cast<unsigned char*>(attention_memory));
  if (a.starts_early) attention.prefetch_tokens();
  let_next_start();
  wait_for_previous();
  attention.run();
}

}  // namespace headway::inline v0::internal::cuda
