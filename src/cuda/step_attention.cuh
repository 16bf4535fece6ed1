// The kernel of attention in a decoding step: one query per row over a cache that rows share. The new token is normed,
// rotated and put into the cache in the same pass. It takes any elements and sizes; step_attention_mma.cuh has the one
// for 16-bit elements.
#pragma once

#include <cstdint>
#include <limits>

#include "cuda/step_heads.cuh"
#include "cuda/step_launch.cuh"

namespace headway::inline v0::internal::cuda {

inline constexpr int kAttentionWarps = 8;
inline constexpr int kAttentionThreads = kAttentionWarps * kWarp;
inline constexpr int kMostHeadDim = 256;
inline constexpr int kMostGroup = 8;  // query heads of a block

template <typename T>
struct StepAttentionArguments {
  AppendArguments<T> append;    // new tokens; their projected is null where there are none
  const T* query;               // (rows, heads, head_dim), rows `query_stride` apart, without new tokens
  const T* cache;               // (entry_count, capacity, 2, kv_heads, head_dim)
  const std::int32_t* origins;  // (rows, capacity) with new tokens, else (rows)
  const std::int64_t* lengths;  // (entry_count) without new tokens
  T* result;                    // (rows, heads, head_dim)
  std::int64_t query_stride, entry_count, capacity;
  int heads, kv_heads, head_dim;
  int group;          // query heads of a key/value head
  int chunks;         // of a group, each the work of a block
  int cluster;        // blocks that share the tokens of a row
  bool starts_early;  // while kernels before are still running
  Compute<T> scale, softcap;
  std::int64_t window;         // -1: none
  const float* alibi_slopes;   // (heads); null: none
  const float* distance_bias;  // (heads, distances); null: none
  std::int64_t distances;
  const float* sinks;  // (heads); null: none
};

// A number that another kernel may be about to change: it does not stay in the cache of the multiprocessor.
template <bool kAhead, typename Number>
__device__ Number read(const Number* from) {
  return kAhead ? __ldcg(from) : *from;
}

// The tokens that a row sees: [begin, end). kAhead: as they are before the kernels before have ended, for prefetches
// alone.
template <typename T, bool kAhead = false>
struct SeenTokens {
  std::int64_t begin = 0, end = 0;
  std::int64_t fresh = -1;                // the new one; -1: it is not among them
  const std::int32_t* origins = nullptr;  // (capacity) of each token
  std::int64_t entry = -1;                // of all where there are no origins

  __device__ SeenTokens(const StepAttentionArguments<T>& a, std::int64_t row) {
    if (a.append.projected) {
      const std::int64_t position = read<kAhead>(a.append.positions + row);
      origins = a.origins + row * a.capacity;
      end = bounded(position + 1, a.capacity);
      if (a.window >= 0) begin = bounded(position - a.window, end);
      if (kAhead || NewToken<T>(a.append, row).is_inside) fresh = position;
    } else {
      entry = read<kAhead>(a.origins + row);
      if (entry >= 0 && entry < a.entry_count) end = bounded(read<kAhead>(a.lengths + entry), a.capacity);
    }
  }
  // The key of token t, head `kv_head`; null where it is new, or where there is none.
  __device__ const T* key(const StepAttentionArguments<T>& a, std::int64_t t, int kv_head) const {
    const std::int64_t from = origins ? read<kAhead>(origins + t) : entry;
    if (t == fresh || from < 0 || from >= a.entry_count) return nullptr;
    return a.cache + ((from * a.capacity + t) * 2 * a.kv_heads + kv_head) * a.head_dim;
  }

 private:
  static __device__ std::int64_t bounded(std::int64_t value, std::int64_t most) {
    return value < 0 ? 0 : (value < most ? value : most);
  }
};

// The shared memory of a block, in numbers of what is computed in.
struct AttentionMemory {
  int queries;  // (group, head_dim), scaled
  int fresh;    // (2, head_dim): key and value of the new token
  int heads;    // (warps, head_dim)
  int weights;  // (warps, 32 tokens, group)
  int parts;    // (warps, group, 2 + head_dim): largest score, sum, output
  int block;    // (group, 2 + head_dim): the same of all warps
  int total;

  __host__ __device__ AttentionMemory(int group, int head_dim) {
    queries = 0;
    weights = queries + group * head_dim;
    fresh = weights + kAttentionWarps * kWarp * group;
    heads = fresh + 2 * head_dim;
    parts = heads + kAttentionWarps * head_dim;
    block = parts + kAttentionWarps * group * (2 + head_dim);
    total = block + group * (2 + head_dim);
  }
};

// Blocks that are items = (rows, kv_heads, chunks of a group), a cluster for each. kGroup: query heads of a block at
// most. kColumns: of a head's columns, per lane. kPack: elements that are read at once of keys; 1: anything goes.
template <typename T, int kGroup, int kColumns, int kPack>
class StepAttention {
  using Real = Compute<T>;
  static constexpr int kVector = kPack == 1 ? 1 : (kColumns < kPack ? kColumns : kPack);  // values, likewise
  static constexpr int kBatch = kColumns <= 2 ? 8 : 4;  // tokens whose values are under way

 public:
  __device__ StepAttention(const StepAttentionArguments<T>& arguments, Real* shared)
      : a_(arguments),
        memory_(kGroup, arguments.head_dim),
        shared_(shared),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        rank_(arguments.cluster > 1 ? cluster_rank() : 0),
        item_(static_cast<int>(blockIdx.x) / arguments.cluster),
        chunk_(item_ % arguments.chunks),
        kv_head_(item_ / arguments.chunks % arguments.kv_heads),
        row_(item_ / arguments.chunks / arguments.kv_heads),
        count_(arguments.group - chunk_ * kGroup < kGroup ? arguments.group - chunk_ * kGroup : kGroup),
        first_head_(kv_head_ * arguments.group + chunk_ * kGroup) {}

  // Asks for the keys and values of the tokens that this block will most likely see.
  __device__ void prefetch_tokens() const {
    constexpr int kLine = 128 / sizeof(T);
    const SeenTokens<T, true> tokens(a_, row_);
    const Share share = share_of(tokens.begin, tokens.end);
    for (std::int64_t t = share.begin + threadIdx.x; t < share.end; t += kAttentionThreads) {
      const T* key = tokens.key(a_, t, kv_head_);
      if (key == nullptr) continue;
      for (int d = 0; d < a_.head_dim; d += kLine) {
        prefetch(key + d);
        prefetch(key + a_.kv_heads * a_.head_dim + d);
      }
    }
  }

  __device__ void run() {
    a_.append.projected ? prepare_new_token() : prepare_query();
    __syncthreads();
    const SeenTokens<T> tokens(a_, row_);
    const Share share = share_of(tokens.begin, tokens.end);
    for (std::int64_t t = share.begin + warp_ * kWarp; t < share.end; t += kAttentionThreads) {
      attend(tokens, t, share.end);
    }
    store_part();
    __syncthreads();
    join_warps();
    cluster_sync(a_.cluster);
    join_blocks();
    if (a_.cluster > 1) cluster_sync(a_.cluster);  // no block leaves while its part is read
  }

 private:
  // The tokens of this block of the cluster.
  struct Share {
    std::int64_t begin, end;
  };
  __device__ Share share_of(std::int64_t begin, std::int64_t end) const {
    const std::int64_t count = (end - begin + a_.cluster - 1) / a_.cluster, first = begin + rank_ * count;
    return {first, first + count < end ? first + count : end};
  }

  __device__ Real* queries() const { return shared_ + memory_.queries; }
  __device__ Real* fresh() const { return shared_ + memory_.fresh; }
  __device__ Real* weights() const { return shared_ + memory_.weights + warp_ * kWarp * kGroup; }
  __device__ Real* part(int warp, int head) const {
    return shared_ + memory_.parts + (warp * kGroup + head) * (2 + a_.head_dim);
  }
  __device__ Real* block_part(int head) const { return shared_ + memory_.block + head * (2 + a_.head_dim); }

  __device__ void prepare_query() {
    const T* query = a_.query + row_ * a_.query_stride + static_cast<std::int64_t>(first_head_) * a_.head_dim;
    for (int i = static_cast<int>(threadIdx.x); i < count_ * a_.head_dim; i += kAttentionThreads) {
      queries()[i] = to_compute(query[i]) * a_.scale;
    }
  }

  // Queries, key and value of the new token, rounded as they would be stored. One block of a head's puts the latter two
  // into the cache, where no block looks for them in this step.
  __device__ void prepare_new_token() {
    const AppendArguments<T>& append = a_.append;
    const NewToken<T> token(append, row_);
    const T* projected = append.projected + row_ * append.stride;
    Real* memory = shared_ + memory_.heads + warp_ * a_.head_dim;
    const bool stores = token.is_inside && rank_ == 0 && chunk_ == 0;
    T* cached = stores ? token.key(append, kv_head_) : nullptr;
    const std::int64_t to_value = static_cast<std::int64_t>(a_.kv_heads) * a_.head_dim;
    for (int i = warp_; i < count_ + 2; i += kAttentionWarps) {
      const int head = i < count_ ? first_head_ + i : a_.heads + kv_head_ + (i - count_) * a_.kv_heads;
      const T* source = projected + static_cast<std::int64_t>(head) * a_.head_dim;
      if (i < count_) {
        transform_head(append, source, append.query_norm, token.rotation, memory, [&](int d, Real value) {
          queries()[i * a_.head_dim + d] = to_compute(from_compute<T>(value)) * a_.scale;
        });
      } else if (i == count_) {
        transform_head(append, source, append.key_norm, token.rotation, memory, [&](int d, Real value) {
          const T rounded = from_compute<T>(value);
          fresh()[d] = to_compute(rounded);
          if (stores) cached[d] = rounded;
        });
      } else {
        for (int d = lane_; d < a_.head_dim; d += kWarp) {
          fresh()[a_.head_dim + d] = to_compute(source[d]);
          if (stores) cached[to_value + d] = source[d];
        }
      }
    }
    if (stores && kv_head_ == 0 && threadIdx.x == 0 && append.origins) {
      append.origins[row_ * append.capacity + token.position] = static_cast<std::int32_t>(token.entry);
    }
  }

  // 32 tokens from `first` on: a lane has one and computes its scores, then all lanes add up the values.
  __device__ void attend(const SeenTokens<T>& tokens, std::int64_t first, std::int64_t end) {
    const std::int64_t t = first + lane_;
    const T* key = t < end ? tokens.key(a_, t, kv_head_) : nullptr;
    const bool is_fresh = t < end && t == tokens.fresh, is_there = key || is_fresh;
    Real scores[kGroup] = {};
    if (key) {
      for (int d = 0; d < a_.head_dim; d += kPack) add_products(scores, d, load_values<kPack>(key + d));
    } else if (is_fresh) {
      for (int d = 0; d < a_.head_dim; ++d) add_products(scores, d, load_values<1>(fresh() + d));
    }
    __syncwarp();  // the weights of the tokens before have been read
#pragma unroll
    for (int head = 0; head < kGroup; ++head) {
      if (head >= count_) break;
      const Real score = is_there ? modified(scores[head], first_head_ + head, tokens.end - 1 - t) : kNone;
      raise(head, score);
      const Real weight = is_there ? ::exp(score - power_reference(largest_[head])) : Real(0);
      sums_[head] += weight;
      weights()[lane_ * kGroup + head] = weight;
    }
    __syncwarp();
    const auto value = reinterpret_cast<unsigned long long>(key ? key + a_.kv_heads * a_.head_dim : nullptr);
    const int here = static_cast<int>(end - first < kWarp ? end - first : kWarp);
    for (int i = 0; i < here; i += kBatch) {
      Values<Real, kColumns> values[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        values[j] = load_columns(reinterpret_cast<const T*>(__shfl_sync(0xFFFFFFFF, value, i + j)));
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) add_value(i + j, values[j]);
    }
    if (tokens.fresh >= first && tokens.fresh < first + here) {
      add_value(static_cast<int>(tokens.fresh - first), load_columns(fresh() + a_.head_dim));
    }
  }

  template <int kCount>
  __device__ void add_products(Real (&scores)[kGroup], int d, const Values<Real, kCount>& key) const {
    constexpr int kPart = kCount % 4 == 0 ? 4 : 1;
#pragma unroll
    for (int head = 0; head < kGroup; ++head) {
      if (head >= count_) break;
#pragma unroll
      for (int j = 0; j < kCount; j += kPart) {
        const auto query = load_values<kPart>(queries() + head * a_.head_dim + d + j);
#pragma unroll
        for (int k = 0; k < kPart; ++k) scores[head] += query[k] * key[j + k];
      }
    }
  }

  // What comes between Q K^T and the softmax.
  __device__ Real modified(Real score, int head, std::int64_t distance) const {
    if (a_.softcap != 0) score = a_.softcap * ::tanh(score / a_.softcap);
    if (a_.alibi_slopes) score -= static_cast<Real>(a_.alibi_slopes[head]) * static_cast<Real>(distance);
    if (a_.distance_bias) {
      const std::int64_t bounded = distance < a_.distances ? distance : a_.distances - 1;
      score += static_cast<Real>(a_.distance_bias[head * a_.distances + bounded]);
    }
    return score;
  }

  // Makes the largest of the warp's scores the reference where it is larger.
  __device__ void raise(int head, Real score) {
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) score = fmax(score, exchange(score, distance));
    if (!(score > largest_[head])) return;
    const Real factor = ::exp(largest_[head] - score);
    largest_[head] = score;
    sums_[head] *= factor;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) output_[head][c] *= factor;
  }

  // The lane's column c.
  __device__ int column(int c) const { return (c / kVector * kWarp + lane_) * kVector + c % kVector; }

  // The lane's columns of a row; zeros where there is none.
  template <typename From>
  __device__ Values<Real, kColumns> load_columns(const From* row) const {
    constexpr int kRead = sizeof(From) * kVector > 16 ? 1 : kVector;
    Values<Real, kColumns> values;
#pragma unroll
    for (int c = 0; c < kColumns; c += kRead) {
      Values<Real, kRead> read = {};
      if (row && column(c) < a_.head_dim) read = load_values<kRead>(row + column(c));
#pragma unroll
      for (int k = 0; k < kRead; ++k) values[c + k] = read[k];
    }
    return values;
  }

  // output += P V of token `i` of the warp's 32.
  __device__ void add_value(int i, const Values<Real, kColumns>& value) {
#pragma unroll
    for (int head = 0; head < kGroup; ++head) {
      if (head >= count_) break;
      const Real weight = weights()[i * kGroup + head];
#pragma unroll
      for (int c = 0; c < kColumns; ++c) output_[head][c] += weight * value[c];
    }
  }

  __device__ void store_part() {
#pragma unroll
    for (int head = 0; head < kGroup; ++head) {
      if (head >= count_) break;
      Real sum = sums_[head];
#pragma unroll
      for (int distance = kWarp / 2; distance > 0; distance /= 2) sum += exchange(sum, distance);
      Real* to = part(warp_, head);
      if (lane_ == 0) {
        to[0] = largest_[head];
        to[1] = sum;
      }
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (column(c) < a_.head_dim) to[2 + column(c)] = output_[head][c];
      }
    }
  }

  // The parts of the warps become the block's, in their order.
  __device__ void join_warps() {
    for (int i = static_cast<int>(threadIdx.x); i < count_ * a_.head_dim; i += kAttentionThreads) {
      const int head = i / a_.head_dim, d = i % a_.head_dim;
      Real largest = kNone, sum = 0, output = 0;
      for (int w = 0; w < kAttentionWarps; ++w) largest = fmax(largest, part(w, head)[0]);
      for (int w = 0; w < kAttentionWarps; ++w) {
        const Real factor = ::exp(part(w, head)[0] - power_reference(largest));
        sum += part(w, head)[1] * factor;
        output += part(w, head)[2 + d] * factor;
      }
      if (d == 0) {
        block_part(head)[0] = largest;
        block_part(head)[1] = sum;
      }
      block_part(head)[2 + d] = output;
    }
  }

  // The parts of the cluster's blocks become the result; the heads are shared out to the blocks.
  __device__ void join_blocks() {
    for (int head = rank_; head < count_; head += a_.cluster) {
      const Real* own = block_part(head);
      const Real sink = a_.sinks ? static_cast<Real>(a_.sinks[first_head_ + head]) : kNone;
      T* result = a_.result + (row_ * a_.heads + first_head_ + head) * a_.head_dim;
      for (int d = static_cast<int>(threadIdx.x); d < a_.head_dim; d += kAttentionThreads) {
        Real largest = sink, output = 0;
        for (int r = 0; r < a_.cluster; ++r) largest = fmax(largest, of_rank(own, r));
        Real sum = ::exp(sink - power_reference(largest));
        for (int r = 0; r < a_.cluster; ++r) {
          const Real factor = ::exp(of_rank(own, r) - power_reference(largest));
          sum += of_rank(own + 1, r) * factor;
          output += of_rank(own + 2 + d, r) * factor;
        }
        result[d] = from_compute<T>(sum == 0 ? Real(0) : output / sum);
      }
    }
  }
  __device__ Real of_rank(const Real* own, int rank) const {
    if constexpr (sizeof(Real) == sizeof(float)) {
      return load_of_rank(own, rank, a_.cluster);
    } else {
      return *own;
    }
  }

  static constexpr Real kNone = -std::numeric_limits<Real>::infinity();

  const StepAttentionArguments<T>& a_;
  const AttentionMemory memory_;
  Real* shared_;
  const int lane_, warp_, rank_, item_, chunk_, kv_head_;
  const std::int64_t row_;
  const int count_;  // query heads of this block
  const int first_head_;
  // What this warp has summed, by head: of P = exp(score - largest), each lane its tokens, and of P times values.
  Real largest_[kGroup] = {};
  Real sums_[kGroup] = {};
  Real output_[kGroup][kColumns] = {};

 public:
  __device__ void clear() {
#pragma unroll
    for (Real& largest : largest_) largest = kNone;
  }
};

template <typename T, int kGroup, int kColumns, int kPack>
__global__ void __launch_bounds__(kAttentionThreads, 1)
    step_attention_kernel(const __grid_constant__ StepAttentionArguments<T> a) {
  extern __shared__ uint4 attention_memory[];
  StepAttention<T, kGroup, kColumns, kPack> attention(a, reinterpret_cast<Compute<T>*>(attention_memory));
  if (a.starts_early) attention.prefetch_tokens();
  let_next_start();
  wait_for_previous();
  attention.clear();
  attention.run();
}

}  // namespace headway::inline v0::internal::cuda
