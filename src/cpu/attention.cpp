// The forward: which thread computes which queries of which head. No choice made here changes a bit of the result.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "core/thread_pool.h"
#include "cpu/attention_plan.h"
#include "cpu/backend.h"
#include "cpu/isa.h"
#include "cpu/scratch_slots.h"

namespace headway::inline v0::internal::cpu {
namespace {

constexpr std::size_t kThreadPackLimit = std::size_t{8} << 20;

// The keys and values of one (sequence, key head) as the kernels read them.
struct PackedHead {
  const void* keys = nullptr;
  const void* values = nullptr;
  std::int64_t value_stride = 0;
};

class ForwardPlan {
 public:
  ForwardPlan(const AttentionProblem& problem, AttentionResult& result)
      : problem_(problem),
        result_(result),
        kernels_(attention_kernels(problem.query.dtype())),
        rules_(make_rules(problem)),
        sequences_(static_cast<std::int64_t>(problem.sequences.size())),
        workspace_bytes_(kernels_.forward_workspace(problem.head_dim, problem.value_dim)) {}

  void run() {
    if (problem_.weights != Weights::none && problem_.packed) {
      result_.weights.fill(problem_.weights_of == WeightsOf::masked ? -std::numeric_limits<double>::infinity() : 0.0);
    }
    bool has_weights = problem_.weights == Weights::none;
    if (decodes()) {
      decode();
    } else if (fits_by_head()) {
      by_head();
      // Rows with a large log-sum-exp are summed again, which needs all keys packed: their weights are recomputed.
      has_weights |= problem_.weights_of != WeightsOf::softmax || !has_large_logsumexp(result_.logsumexp);
    } else {
      pack_all();
      by_chunk();
    }
    if (!has_weights) {
      if (!packed_) pack_all();
      write_weights();
    }
  }

 private:
  const Sequence& sequence(std::int64_t s) const { return problem_.sequences[static_cast<std::size_t>(s)]; }
  const ScoreRule& rule(std::int64_t s, std::int64_t h) const {
    return rules_[static_cast<std::size_t>(s * problem_.heads + h)];
  }

  // Raw scores are returned for padding too.
  std::int64_t packed_length(std::int64_t s) const {
    const bool raw = problem_.weights != Weights::none && problem_.weights_of != WeightsOf::softmax;
    return raw ? sequence(s).key_length : sequence(s).key_count;
  }
  std::size_t keys_bytes(std::int64_t s) const {
    return (kernels_.packed_keys_bytes(packed_length(s), problem_.head_dim) + 63) / 64 * 64;
  }
  std::size_t values_bytes(std::int64_t s, std::int64_t kv_head) const {
    if (kernels_.values_in_place(value_rows(s, kv_head), problem_.value_dim)) return 0;
    return (kernels_.packed_values_bytes(packed_length(s), problem_.value_dim) + 63) / 64 * 64;
  }
  Rows key_rows(std::int64_t s, std::int64_t kv_head) const {
    return rows_of(problem_.key, sequence(s).batch, kv_head, sequence(s).key_begin);
  }
  Rows value_rows(std::int64_t s, std::int64_t kv_head) const {
    return rows_of(problem_.value, sequence(s).batch, kv_head, sequence(s).key_begin);
  }

  // Packs the keys [begin, end) of one head, and its values where they cannot be read in place.
  PackedHead pack(std::int64_t s, std::int64_t kv_head, std::int64_t begin, std::int64_t end, std::byte* memory) const {
    PackTask task = {.source = key_rows(s, kv_head),
                     .begin = begin,
                     .end = end,
                     .dim = problem_.head_dim,
                     .factor = problem_.scale,
                     .packed = memory};
    kernels_.pack_keys(task);
    PackedHead packed = {.keys = memory, .values = nullptr, .value_stride = problem_.value_dim};
    const Rows values = value_rows(s, kv_head);
    if (kernels_.values_in_place(values, problem_.value_dim)) {
      packed.values = values.data;
    } else {
      task = {.source = values,
              .begin = begin,
              .end = end,
              .dim = problem_.value_dim,
              .factor = 1,
              .packed = memory + keys_bytes(s)};
      kernels_.pack_values(task);
      packed.values = task.packed;
      packed.value_stride = kernels_.packed_value_stride(problem_.value_dim);
    }
    return packed;
  }

  ForwardTask forward_task(std::int64_t s, std::int64_t h, const PackedHead& packed) const {
    const Sequence& q = sequence(s);
    return {.query = rows_of(problem_.query, q.batch, h, q.query_begin),
            .packed_keys = packed.keys,
            .values = packed.values,
            .value_stride = packed.value_stride,
            .output = rows_of(result_.output, q.batch, h, q.query_begin),
            .logsumexp = logsumexp(s, h),
            .query_begin = 0,
            .query_end = 0,
            .head_dim = problem_.head_dim,
            .value_dim = problem_.value_dim,
            .scale = problem_.scale,
            .has_sink = !problem_.sinks.empty(),
            .sink = problem_.sinks.empty() ? 0 : problem_.sinks[static_cast<std::size_t>(h)],
            .rule = &rule(s, h)};
  }
  std::byte* logsumexp(std::int64_t s, std::int64_t h) const {
    const std::int64_t row = (sequence(s).batch * problem_.heads + h) * problem_.query_length + sequence(s).query_begin;
    return static_cast<std::byte*>(result_.logsumexp.raw_data()) + row * kernels_.real_bytes;
  }

  // ---- many heads: a thread packs and computes a whole one, or all of an entry where their weights are averaged ----

  std::int64_t kv_heads_together() const { return problem_.weights == Weights::mean ? problem_.kv_heads : 1; }

  std::size_t task_bytes(std::int64_t s, std::int64_t kv_head) const {
    std::size_t bytes = 0;
    for (std::int64_t h = kv_head; h < kv_head + kv_heads_together(); ++h) bytes += keys_bytes(s) + values_bytes(s, h);
    return bytes;
  }
  bool fits_by_head() const {
    std::size_t most = 0;
    for (std::int64_t s = 0; s < sequences_; ++s) most = std::max(most, task_bytes(s, 0));
    return sequences_ * problem_.kv_heads / kv_heads_together() >= std::int64_t{4} * worker_limit() &&
           most <= kThreadPackLimit;
  }

  void by_head() {
    struct Task {
      std::int64_t sequence, kv_head, work;
    };
    std::vector<Task> tasks;
    for (std::int64_t s = 0; s < sequences_; ++s) {
      const std::int64_t work = visible_scores(rule(s, 0), 0, sequence(s).query_length);
      for (std::int64_t h = 0; h < problem_.kv_heads; h += kv_heads_together()) tasks.push_back({s, h, work});
    }
    std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.work > b.work; });
    parallel_for(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t t, int) {
      const auto [s, kv_head, work] = tasks[static_cast<std::size_t>(t)];
      std::byte* memory = thread_scratch(kAttentionPackSlot, task_bytes(s, kv_head));
      std::vector<WeightsHead> heads;
      for (std::int64_t i = 0; i < kv_heads_together(); ++i) {
        const PackedHead packed = pack(s, kv_head + i, 0, packed_length(s), memory);
        memory += keys_bytes(s) + values_bytes(s, kv_head + i);
        const std::int64_t first = (kv_head + i) * problem_.group();
        for (std::int64_t h = first; h < first + problem_.group(); ++h) {
          whole_head(s, h, packed);
          if (problem_.weights != Weights::none) heads.push_back(weights_head(s, h, packed));
        }
      }
      if (problem_.weights == Weights::mean) {
        write_weights(s, 0, heads, 0, sequence(s).query_length);
      } else {
        for (std::size_t i = 0; i < heads.size(); ++i) {
          const std::int64_t head = kv_head * problem_.group() + static_cast<std::int64_t>(i);
          write_weights(s, head, {heads[i]}, 0, sequence(s).query_length);
        }
      }
    });
  }

  // The output of all queries of one head.
  void whole_head(std::int64_t s, std::int64_t h, const PackedHead& packed) const {
    ForwardTask task = forward_task(s, h, packed);
    for (std::int64_t q = 0; q < sequence(s).query_length; q += kQueryChunk) {
      task.query_begin = q;
      task.query_end = std::min(q + kQueryChunk, sequence(s).query_length);
      kernels_.forward(task, thread_scratch(kAttentionWorkspaceSlot, workspace_bytes_));
    }
  }

  // ---- few heads: all threads pack, then take chunks of queries ----

  void pack_all() {
    std::size_t bytes = 0;
    std::vector<std::size_t> offsets;
    for (std::int64_t s = 0; s < sequences_; ++s) {
      for (std::int64_t h = 0; h < problem_.kv_heads; ++h) {
        offsets.push_back(bytes);
        bytes += keys_bytes(s) + values_bytes(s, h);
      }
    }
    packed_ = std::make_unique<ScratchBuffer>(bytes);
    heads_.resize(offsets.size());
    struct Task {
      std::int64_t sequence, kv_head, begin, end;
    };
    std::vector<Task> tasks;
    for (std::int64_t s = 0; s < sequences_; ++s) {
      for (std::int64_t h = 0; h < problem_.kv_heads; ++h) {
        for (std::int64_t k = 0; k == 0 || k < packed_length(s); k += kPackKeys) {
          tasks.push_back({s, h, k, std::min(k + kPackKeys, packed_length(s))});
        }
      }
    }
    parallel_for(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t t, int) {
      const auto [s, h, begin, end] = tasks[static_cast<std::size_t>(t)];
      const auto head = static_cast<std::size_t>(s * problem_.kv_heads + h);
      const PackedHead packed = pack(s, h, begin, end, packed_->data() + offsets[head]);
      if (begin == 0) heads_[head] = packed;
    });
  }

  const PackedHead& packed_head(std::int64_t s, std::int64_t h) const {
    return heads_[static_cast<std::size_t>(s * problem_.kv_heads + h / problem_.group())];
  }

  struct Chunk {
    std::int64_t sequence, head, begin, end, work;
  };
  std::vector<Chunk> chunks(std::int64_t heads) const {
    std::vector<Chunk> chunks;
    for (std::int64_t s = 0; s < sequences_; ++s) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t q = 0; q < sequence(s).query_length; q += kQueryChunk) {
          const std::int64_t end = std::min(q + kQueryChunk, sequence(s).query_length);
          chunks.push_back({s, h, q, end, visible_scores(rule(s, h), q, end)});
        }
      }
    }
    std::stable_sort(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) { return a.work > b.work; });
    return chunks;
  }

  void by_chunk() {
    const std::vector<Chunk> tasks = chunks(problem_.heads);
    parallel_for(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t t, int) {
      const Chunk& chunk = tasks[static_cast<std::size_t>(t)];
      ForwardTask task = forward_task(chunk.sequence, chunk.head, packed_head(chunk.sequence, chunk.head));
      task.query_begin = chunk.begin;
      task.query_end = chunk.end;
      kernels_.forward(task, thread_scratch(kAttentionWorkspaceSlot, workspace_bytes_));
    });
  }

  // ---- few queries: the keys are split ----

  // Up to four rows need no packing to be fast; more do, unless there are enough keys to split.
  bool decodes() const {
    constexpr std::int64_t kFewRows = 4, kManyKeys = 1024;
    std::int64_t longest = 0, keys = 0;
    for (const Sequence& s : problem_.sequences) {
      longest = std::max(longest, s.query_length);
      keys = std::max(keys, s.key_count);
    }
    const std::int64_t rows = longest * problem_.group();
    return rows <= (keys < kManyKeys ? kFewRows : longest == 1 ? 4 * kDecodeRows : kDecodeRows);
  }

  void decode() {
    struct Part {
      std::int64_t sequence, kv_head, begin, end;
      std::size_t partial;  // of its first row, in reals
    };
    std::vector<Part> parts;
    struct Row {
      std::int64_t sequence, head, query, part_count, rows;
      std::size_t partial;
    };
    std::vector<Row> rows;
    const std::int64_t width = problem_.value_dim + 2;
    std::size_t reals = 0;
    for (std::int64_t s = 0; s < sequences_; ++s) {
      const std::int64_t count = sequence(s).query_length * problem_.group();
      if (count == 0) continue;
      const std::int64_t first = rule(s, 0).first_key(0) / kDecodeKeys * kDecodeKeys;
      const std::int64_t end = rule(s, 0).end_key(sequence(s).query_length - 1);
      const std::int64_t part_count = std::max<std::int64_t>(0, (end - first + kDecodeKeys - 1) / kDecodeKeys);
      for (std::int64_t h = 0; h < problem_.kv_heads; ++h) {
        for (std::int64_t r = 0; r < count; ++r) {
          rows.push_back({s, h * problem_.group() + r / sequence(s).query_length, r % sequence(s).query_length,
                          part_count, count, reals + static_cast<std::size_t>(r * width)});
        }
        for (std::int64_t p = 0; p < part_count; ++p) {
          const std::int64_t begin = first + p * kDecodeKeys;
          parts.push_back({s, h, begin, std::min(begin + kDecodeKeys, end), reals});
          reals += static_cast<std::size_t>(count * width);
        }
      }
    }
    const ScratchBuffer memory(reals * static_cast<std::size_t>(kernels_.real_bytes));
    const auto at = [&](std::size_t real) {
      return memory.data() + real * static_cast<std::size_t>(kernels_.real_bytes);
    };
    parallel_for(static_cast<std::int64_t>(parts.size()), [&](std::int64_t t, int) {
      const Part& part = parts[static_cast<std::size_t>(t)];
      decode_part(part.sequence, part.kv_head, part.begin, part.end, at(part.partial));
    });
    parallel_for((static_cast<std::int64_t>(rows.size()) + kCombineRows - 1) / kCombineRows, [&](std::int64_t t, int) {
      const auto end = std::min<std::size_t>(rows.size(), static_cast<std::size_t>((t + 1) * kCombineRows));
      for (auto i = static_cast<std::size_t>(t * kCombineRows); i < end; ++i) {
        const Row& row = rows[i];
        const Sequence& q = sequence(row.sequence);
        const CombineTask task = {
            .partials = at(row.partial),
            .part_count = row.part_count,
            .part_stride = row.rows * width,
            .value_dim = problem_.value_dim,
            .output = rows_of(result_.output, q.batch, row.head, q.query_begin + row.query),
            .logsumexp = logsumexp(row.sequence, row.head) + row.query * kernels_.real_bytes,
            .has_sink = !problem_.sinks.empty(),
            .sink = problem_.sinks.empty() ? 0 : problem_.sinks[static_cast<std::size_t>(row.head)]};
        kernels_.combine(task, thread_scratch(kAttentionWorkspaceSlot, workspace_bytes_));
      }
    });
  }

  void decode_part(std::int64_t s, std::int64_t kv_head, std::int64_t begin, std::int64_t end,
                   std::byte* partial) const {
    const Sequence& q = sequence(s);
    const std::int64_t count = q.query_length * problem_.group();
    for (std::int64_t r = 0; r < count; r += kDecodeRows) {
      Rows queries[kDecodeRows];
      const ScoreRule* rules[kDecodeRows];
      std::int64_t positions[kDecodeRows];
      const std::int64_t rows = std::min(kDecodeRows, count - r);
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t head = kv_head * problem_.group() + (r + i) / q.query_length;
        positions[i] = (r + i) % q.query_length;
        queries[i] = rows_of(problem_.query, q.batch, head, q.query_begin + positions[i]);
        rules[i] = &rule(s, head);
      }
      const DecodeTask task = {.queries = queries,
                               .rules = rules,
                               .positions = positions,
                               .row_count = rows,
                               .keys = key_rows(s, kv_head),
                               .values = value_rows(s, kv_head),
                               .key_begin = begin,
                               .key_end = end,
                               .head_dim = problem_.head_dim,
                               .value_dim = problem_.value_dim,
                               .scale = problem_.scale,
                               .partial = partial + r * (problem_.value_dim + 2) * kernels_.real_bytes};
      kernels_.decode(task, thread_scratch(kAttentionWorkspaceSlot, workspace_bytes_));
    }
  }

  // ---- the weights ----

  WeightsHead weights_head(std::int64_t s, std::int64_t h, const PackedHead& packed) const {
    WeightsHead head = {.query = rows_of(problem_.query, sequence(s).batch, h, sequence(s).query_begin),
                        .packed_keys = packed.keys,
                        .logsumexp = logsumexp(s, h),
                        .rule = &rule(s, h),
                        .references = {}};
    if (references_) {
      const std::int64_t rows = result_.logsumexp.element_count() * kernels_.real_bytes;
      const std::int64_t offset = logsumexp(s, h) - static_cast<std::byte*>(result_.logsumexp.raw_data());
      head.references = {.reference = references_->data() + offset, .rest = references_->data() + rows + offset};
    }
    return head;
  }

  void find_references() {
    references_ = std::make_unique<ScratchBuffer>(
        static_cast<std::size_t>(2 * result_.logsumexp.element_count() * kernels_.real_bytes));
    const std::vector<Chunk> tasks = chunks(problem_.heads);
    parallel_for(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t t, int) {
      const Chunk& chunk = tasks[static_cast<std::size_t>(t)];
      kernels_.references({.head = weights_head(chunk.sequence, chunk.head, packed_head(chunk.sequence, chunk.head)),
                           .query_begin = chunk.begin,
                           .query_end = chunk.end,
                           .head_dim = problem_.head_dim,
                           .scale = problem_.scale,
                           .has_sink = !problem_.sinks.empty(),
                           .sink = problem_.sinks.empty() ? 0 : problem_.sinks[static_cast<std::size_t>(chunk.head)]},
                          thread_scratch(kAttentionWorkspaceSlot, workspace_bytes_));
    });
  }

  void write_weights() {
    if (problem_.weights_of == WeightsOf::softmax && has_large_logsumexp(result_.logsumexp)) find_references();
    const std::int64_t together = heads_together();
    const std::vector<Chunk> tasks = chunks(problem_.heads / together);
    parallel_for(static_cast<std::int64_t>(tasks.size()), [&](std::int64_t t, int) {
      const Chunk& chunk = tasks[static_cast<std::size_t>(t)];
      std::vector<WeightsHead> heads;
      for (std::int64_t h = chunk.head; h < chunk.head + together; ++h) {
        heads.push_back(weights_head(chunk.sequence, h, packed_head(chunk.sequence, h)));
      }
      write_weights(chunk.sequence, chunk.head, heads, chunk.begin, chunk.end);
    });
  }

  // Heads that share a plane of the returned weights.
  std::int64_t heads_together() const { return problem_.weights == Weights::mean ? problem_.heads : 1; }

  // The weights of the queries [begin, end) of one head, or the mean over all of them.
  void write_weights(std::int64_t s, std::int64_t first_head, const std::vector<WeightsHead>& heads, std::int64_t begin,
                     std::int64_t end) const {
    const Sequence& q = sequence(s);
    const Tensor& weights = result_.weights;
    const std::int64_t planes = problem_.heads / heads_together();
    const std::int64_t row = (q.batch * planes + first_head) * problem_.query_length + q.query_begin;
    const auto bytes = static_cast<std::int64_t>(item_size(weights.dtype()));
    const std::int64_t offset = (row * problem_.key_length + q.key_begin) * bytes;
    const WeightsTask task = {.heads = heads.data(),
                              .head_count = static_cast<std::int64_t>(heads.size()),
                              .query_begin = begin,
                              .query_end = end,
                              .key_length = q.key_length,
                              .head_dim = problem_.head_dim,
                              .scale = problem_.scale,
                              .kind = weights_kind(problem_.weights_of),
                              .weights = {.data = static_cast<std::byte*>(weights.raw_data()) + offset,
                                          .stride = problem_.key_length,
                                          .dtype = weights.dtype()}};
    kernels_.weights(task, thread_scratch(kAttentionWorkspaceSlot, workspace_bytes_));
  }

  static constexpr std::int64_t kPackKeys = 512;  // keys of one packing task
  static constexpr std::int64_t kCombineRows = 32;

  const AttentionProblem& problem_;
  AttentionResult& result_;
  const AttentionKernels& kernels_;
  const std::vector<ScoreRule> rules_;  // (sequences, heads)
  const std::int64_t sequences_;
  const std::size_t workspace_bytes_;
  std::unique_ptr<ScratchBuffer> packed_;
  std::vector<PackedHead> heads_;              // (sequences, kv_heads)
  std::unique_ptr<ScratchBuffer> references_;  // (2, batch, heads, query_length): RowReferences of the weights
};

}  // namespace

void CpuBackend::attention(const AttentionProblem& problem, AttentionResult& result) {
  ForwardPlan(problem, result).run();
}

}  // namespace headway::inline v0::internal::cpu
