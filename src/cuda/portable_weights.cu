// What is recomputed from the log-sum-exp: the weights that a user asked for, and what the backward knows of each row.
#include "cuda/attention_score.cuh"
#include "cuda/element.cuh"
#include "cuda/portable_attention.h"

namespace headway::inline v0::internal::cuda {
namespace {

// ---- references ----

struct ReferenceArguments {
  AttentionCall call;
  const void* logsumexp = nullptr;  // (batch, heads, query_length)
  RowReferences references;
  TileTable tiles;  // of the queries
};

// Whether the logarithm of a row's sum would be lost in its log-sum-exp, and these keys suffice to find it.
template <typename A>
__device__ bool is_large(const AttentionCall& call, A logsumexp) {
  const A magnitude = fabs(logsumexp);
  return !call.part_of_keys && magnitude >= A(1024) && magnitude <= std::numeric_limits<A>::max();
}

// Maxima and sums of the rows of one tile of queries.
template <typename T, typename A = Compute<T>>
__device__ RowSums<T> sum_rows(const Tile<T>& tile, const ScoreRule<A>& rule, std::int64_t first_query) {
  constexpr int kTile = Tile<T>::kTile;
  const AttentionCall& call = rule.call;
  const Sequence& s = rule.sequence;
  const TileRows<T> queries = rows_at<T>(call.query, s.batch, rule.head, s.query_begin, s.query_length);
  const TileRows<T> keys = rows_at<T>(call.key, s.batch, rule.head / call.group, s.key_begin, s.key_count);
  const std::int64_t end_key = rule.end_key(min(first_query + kTile, s.query_length) - 1);
  RowSums<T> sums;
  for (std::int64_t k = rule.first_key(first_query) / kTile * kTile; k < end_key; k += kTile) {
    Patch<A> scores;
    A factors[4];
    tile.multiply(scores, queries, first_query, keys, k, call.head_dim);
    rule.apply(scores, first_query + tile.row(), k + tile.column());
    sums.add(scores, factors);
  }
  return sums;
}

template <typename T>
__global__ void __launch_bounds__(Tile<T>::kThreads, Tile<T>::kBlocks)
    references_kernel(const __grid_constant__ ReferenceArguments a) {
  using A = Compute<T>;
  extern __shared__ __align__(16) unsigned char shared[];
  const Tile<T> tile(reinterpret_cast<A*>(shared));
  for (std::int64_t work = blockIdx.x; work < a.tiles.count * a.call.heads; work += gridDim.x) {
    const TilePlace place = a.tiles.at(work % a.tiles.count);
    const ScoreRule<A> rule(a.call, place.sequence, work / a.tiles.count);
    const std::int64_t first_row = a.call.first_row(rule.sequence, rule.head), query = place.first + tile.row();
    A logsumexp[4];
    read_rows(static_cast<const A*>(a.logsumexp) + first_row, query, rule.sequence.query_length, logsumexp);
    bool has_large = false;
    for (int i = 0; i < 4; ++i) has_large = has_large || is_large(a.call, logsumexp[i]);
    RowSums<T> sums;
    if (__syncthreads_or(has_large)) sums = sum_rows<T>(tile, rule, place.first);
    if (tile.column() != 0) continue;
    for (int i = 0; i < 4 && query + i < rule.sequence.query_length; ++i) {
      A reference = logsumexp[i] == kMasked<A> ? -kMasked<A> : logsumexp[i], rest = A(0);
      if (is_large(a.call, logsumexp[i])) {
        if (a.call.sinks) sums.add_sink(i, static_cast<A>(a.call.sinks[rule.head]));
        reference = sums.maximum[i];
        rest = log(sums.sum[i]);
      }
      static_cast<A*>(a.references.reference)[first_row + query + i] = reference;
      static_cast<A*>(a.references.rest)[first_row + query + i] = rest;
    }
  }
}

// ---- delta and sinks of a row ----

struct DeltaArguments {
  AttentionCall call;
  HeadRows output;                    // (batch, heads, query_length, value_dim)
  HeadRows d_output;                  // likewise; without data: zero
  const void* d_logsumexp = nullptr;  // (batch, heads, query_length), or null
  void* delta = nullptr;              // (batch, heads, query_length)
};

constexpr int kRowThreads = 256;

// delta = sum(dO * O) - d_logsumexp; a warp per row.
template <typename T>
__global__ void delta_kernel(const __grid_constant__ DeltaArguments a) {
  using A = Compute<T>;
  const AttentionCall& call = a.call;
  const std::int64_t rows = call.batch * call.heads * call.query_length;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first = (static_cast<std::int64_t>(blockIdx.x) * kRowThreads + threadIdx.x) / 32;
  for (std::int64_t row = first; row < rows; row += static_cast<std::int64_t>(gridDim.x) * (kRowThreads / 32)) {
    const std::int64_t q = row % call.query_length, h = row / call.query_length % call.heads;
    const std::int64_t b = row / call.query_length / call.heads;
    A sum = 0;
    if (a.d_output.data) {
      const T* output = rows_at<T>(a.output, b, h, q, 1).data;
      const T* d_output = rows_at<T>(a.d_output, b, h, q, 1).data;
      for (std::int64_t c = lane; c < call.value_dim; c += 32) {
        // A row without keys has a constant output of zero, so that its gradient is ignored.
        const A o = to_compute(output[c]);
        if (o != A(0)) sum = fma(o, to_compute(d_output[c]), sum);
      }
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
    if (a.d_logsumexp) sum -= static_cast<const A*>(a.d_logsumexp)[row];
    if (lane == 0) static_cast<A*>(a.delta)[row] = sum;
  }
}

// Writes element `index` of an array of a floating dtype.
__device__ void write_floating(void* data, DType dtype, std::int64_t index, double value) {
  switch (dtype) {
    case DType::float64:
      static_cast<double*>(data)[index] = value;
      return;
    case DType::bfloat16:
      static_cast<__nv_bfloat16*>(data)[index] = __double2bfloat16(value);
      return;
    case DType::float16:
      static_cast<__half*>(data)[index] = __double2half(value);
      return;
    default:
      static_cast<float*>(data)[index] = static_cast<float>(value);
  }
}

// A sink is one more score without a value: d_sink = sum over rows of P_sink * (0 - delta). A block per head.
template <typename A>
__global__ void sinks_kernel(const __grid_constant__ AttentionCall call, const A* reference, const A* rest,
                             const A* delta, void* d_sinks, DType dtype) {
  __shared__ double sums[kRowThreads];
  const std::int64_t rows = call.batch * call.query_length;
  for (std::int64_t head = blockIdx.x; head < call.heads; head += gridDim.x) {
    const double sink = call.sinks[head];
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < rows; i += kRowThreads) {
      const std::int64_t row = (i / call.query_length * call.heads + head) * call.query_length + i % call.query_length;
      const double p = exp(sink - static_cast<double>(reference[row]) - static_cast<double>(rest[row]));
      if (p > 0) sum -= p * static_cast<double>(delta[row]);
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = kRowThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) write_floating(d_sinks, dtype, head, sums[0]);
    __syncthreads();
  }
}

// ---- weights ----

struct WeightsArguments {
  AttentionCall call;
  RowReferences references;  // of the softmax alone
  void* weights = nullptr;   // (batch, planes, query_length, key_length)
  std::int64_t planes = 0;   // the heads, or 1 for their mean
  WeightsOf kind = WeightsOf::softmax;
  TileTable tiles;  // of the queries
};

// The weights of one head, in the form that was asked for.
template <typename T, typename A = Compute<T>>
__device__ void compute_weights(const WeightsArguments& a, const Tile<T>& tile, const ScoreRule<A>& rule,
                                std::int64_t first_query, std::int64_t first_key, Patch<A>& weights) {
  constexpr int kTile = Tile<T>::kTile;
  const AttentionCall& call = rule.call;
  const Sequence& s = rule.sequence;
  const std::int64_t query = first_query + tile.row(), last_query = min(first_query + kTile, s.query_length) - 1;
  const bool is_raw = a.kind == WeightsOf::scores || a.kind == WeightsOf::softcapped;
  const bool is_seen = first_key < rule.end_key(last_query) && first_key + kTile > rule.first_key(first_query);
  const TileRows<T> queries = rows_at<T>(call.query, s.batch, rule.head, s.query_begin, s.query_length);
  const TileRows<T> keys = rows_at<T>(call.key, s.batch, rule.head / call.group, s.key_begin, s.key_length);
  // Without columns the products are zero and not read.
  tile.multiply(weights, queries, first_query, keys, first_key, is_raw || is_seen ? call.head_dim : 0);
  if (is_raw) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const A score = times(weights[i][j], rule.scale);
        weights[i][j] = a.kind == WeightsOf::scores ? score : rule.capped(score);
      }
    }
    return;
  }
  rule.apply(weights, query, first_key + tile.column());
  if (a.kind == WeightsOf::masked) return;
  A reference[4], rest[4];
  const std::int64_t first_row = call.first_row(s, rule.head);
  read_rows(static_cast<const A*>(a.references.reference) + first_row, query, s.query_length, reference);
  read_rows(static_cast<const A*>(a.references.rest) + first_row, query, s.query_length, rest);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) weights[i][j] = probability(weights[i][j], reference[i], rest[i]);
  }
}

// Writes a patch of the weights, the mean of `count` heads whose sum it is.
template <typename T, typename A = Compute<T>>
__device__ void write_weights(const WeightsArguments& a, const Sequence& s, std::int64_t plane, std::int64_t query,
                              std::int64_t key, std::int64_t count, const Patch<A>& sum) {
  const A factor = A(1) / static_cast<A>(count);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (query + i >= s.query_length) continue;
    const std::int64_t row = (s.batch * a.planes + plane) * a.call.query_length + s.query_begin + query + i;
    T* target = static_cast<T*>(a.weights) + row * a.call.key_length + s.key_begin + key;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (key + j < s.key_length) target[j] = from_compute<T>(sum[i][j] * factor);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(Tile<T>::kThreads, Tile<T>::kBlocks)
    weights_kernel(const __grid_constant__ WeightsArguments a) {
  using A = Compute<T>;
  extern __shared__ __align__(16) unsigned char shared[];
  const Tile<T> tile(reinterpret_cast<A*>(shared));
  const std::int64_t together = a.call.heads / a.planes;
  for (std::int64_t work = blockIdx.x; work < a.tiles.count * a.planes; work += gridDim.x) {
    const TilePlace place = a.tiles.at(work % a.tiles.count);
    const std::int64_t plane = work / a.tiles.count;
    const Sequence s = a.call.sequence_at(place.sequence);
    for (std::int64_t k = 0; k < s.key_length; k += Tile<T>::kTile) {
      Patch<A> sum = {};
      for (std::int64_t h = plane * together; h < (plane + 1) * together; ++h) {
        const ScoreRule<A> rule(a.call, place.sequence, h);
        Patch<A> weights;
        compute_weights<T>(a, tile, rule, place.first, k, weights);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[i][j] += weights[i][j];
        }
      }
      write_weights<T>(a, s, plane, place.first + tile.row(), k + tile.column(), together, sum);
    }
  }
}

// weights (count) = value
template <typename T>
__global__ void fill_kernel(T* weights, std::int64_t count, Compute<T> value) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    weights[i] = from_compute<T>(value);
  }
}

// Queries and keys of different sequences of a packed batch see nothing of each other.
template <typename T>
void fill_weights(const AttentionProblem& problem, const Tensor& weights) {
  using A = Compute<T>;
  const std::int64_t count = weights.element_count();
  const A value = problem.weights_of == WeightsOf::masked ? kMasked<A> : A(0);
  fill_kernel<T><<<grid_for(count, kRowThreads), kRowThreads, 0, current_stream()>>>(
      static_cast<T*>(weights.raw_data()), count, value);
  check_launch("attention fill_kernel");
}

template <typename T>
void launch_weights(WeightsArguments& a, UploadedCall& uploaded) {
  a.tiles = uploaded.query_tiles(Tile<T>::kTile);
  const std::int64_t count = a.tiles.count * a.planes;
  if (count == 0) return;
  const std::size_t bytes = shared_bytes<T>(0);
  weights_kernel<T><<<grid_for(count, 1), Tile<T>::kThreads, bytes, current_stream()>>>(a);
  check_launch("attention weights_kernel");
}

}  // namespace

std::size_t row_array_bytes(const AttentionProblem& problem) {
  const std::size_t bytes = problem.query.dtype() == DType::float64 ? sizeof(double) : sizeof(float);
  return static_cast<std::size_t>(problem.batch * problem.heads * problem.query_length) * bytes;
}

void find_references(UploadedCall& uploaded, const Tensor& logsumexp, DType dtype, const RowReferences& references) {
  dispatch_elements(dtype, [&]<typename T>() {
    ReferenceArguments a;
    a.call = uploaded.call();
    a.logsumexp = logsumexp.raw_data();
    a.references = references;
    a.tiles = uploaded.query_tiles(Tile<T>::kTile);
    const std::int64_t count = a.tiles.count * a.call.heads;
    if (count == 0) return;
    const std::size_t bytes = shared_bytes<T>(0);
    references_kernel<T><<<grid_for(count, 1), Tile<T>::kThreads, bytes, current_stream()>>>(a);
    check_launch("attention references_kernel");
  });
}

void find_deltas(const AttentionCall& call, const AttentionBackwardInputs& inputs, DType dtype, void* delta) {
  const std::int64_t rows = call.batch * call.heads * call.query_length;
  if (rows == 0) return;
  DeltaArguments a;
  a.call = call;
  a.output = head_rows(inputs.output);
  a.d_output = head_rows(inputs.d_output);
  if (inputs.d_logsumexp.defined()) a.d_logsumexp = inputs.d_logsumexp.raw_data();
  a.delta = delta;
  dispatch_elements(dtype, [&]<typename T>() {
    delta_kernel<T><<<grid_for(rows, kRowThreads / 32), kRowThreads, 0, current_stream()>>>(a);
    check_launch("attention delta_kernel");
  });
}

void sum_sinks(const AttentionCall& call, const RowReferences& references, const void* delta, DType dtype,
               const Tensor& d_sinks) {
  if (call.heads == 0) return;
  dispatch_elements(dtype, [&]<typename T>() {
    using A = Compute<T>;
    sinks_kernel<A><<<grid_for(call.heads, 1), kRowThreads, 0, current_stream()>>>(
        call, static_cast<const A*>(references.reference), static_cast<const A*>(references.rest),
        static_cast<const A*>(delta), d_sinks.raw_data(), d_sinks.dtype());
    check_launch("attention sinks_kernel");
  });
}

void portable_attention_weights(const AttentionProblem& problem, const AttentionResult& result) {
  if (result.weights.element_count() == 0 || problem.heads == 0) return;
  const DType dtype = problem.query.dtype();
  UploadedCall uploaded(problem);
  const bool is_softmax = problem.weights_of == WeightsOf::softmax;
  const DeviceBuffer reference(is_softmax ? row_array_bytes(problem) : 0);
  const DeviceBuffer rest(is_softmax ? row_array_bytes(problem) : 0);
  WeightsArguments a;
  a.call = uploaded.call();
  a.references = {.reference = reference.as<void>(), .rest = rest.as<void>()};
  a.weights = result.weights.raw_data();
  a.planes = problem.weights == Weights::mean ? 1 : problem.heads;
  a.kind = problem.weights_of;
  if (is_softmax) find_references(uploaded, result.logsumexp, dtype, a.references);
  dispatch_elements(dtype, [&]<typename T>() {
    if (problem.packed) fill_weights<T>(problem, result.weights);
    launch_weights<T>(a, uploaded);
  });
}

}  // namespace headway::inline v0::internal::cuda
