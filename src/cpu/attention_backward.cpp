// The backward: one task per block of keys. Blocks add to dQ in the order of their keys, whichever thread runs them, so
// that every core works on a single head and no bit depends on the number of threads.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "base/divide.h"
#include "core/thread_pool.h"
#include "core/ticket_lock.h"
#include "cpu/attention_plan.h"
#include "cpu/backend.h"
#include "cpu/isa.h"
#include "cpu/scratch_slots.h"

namespace headway::inline v0::internal::cpu {
namespace {

constexpr std::int64_t kRowChunk = 256;  // rows of one task of the preparation
constexpr std::size_t kSectionBytes = std::size_t{32} << 20;

class BackwardPlan {
 public:
  BackwardPlan(const AttentionProblem& problem, const AttentionBackwardInputs& inputs, AttentionGradients& gradients)
      : problem_(problem),
        inputs_(inputs),
        gradients_(gradients),
        kernels_(attention_kernels(problem.query.dtype())),
        rules_(make_rules(problem)),
        sequences_(static_cast<std::int64_t>(problem.sequences.size())),
        rows_(problem.batch * problem.heads * problem.query_length),
        statistics_(static_cast<std::size_t>(2 * rows_ * kernels_.real_bytes)),
        packed_bytes_(kernels_.backward_packed_bytes(problem.head_dim, problem.value_dim)) {}

  void run() {
    row_statistics();
    const bool dots_weights = inputs_.d_weights.defined() && problem_.weights_of == WeightsOf::softmax;
    const bool is_large = !problem_.part_of_keys && has_large_logsumexp(inputs_.logsumexp);
    if (dots_weights || is_large) pack_keys();
    if (is_large) find_references();
    if (dots_weights) add_weights_dot();
    packed_keys_.reset();
    if (gradients_.sinks.defined()) sink_gradients();
    make_tiles();
    make_tasks();
    clear_unreached();
    key_blocks();
  }

 private:
  // One block of keys.
  struct Task {
    std::int64_t sequence, kv_head, block;
    std::int64_t bias_cell = 0, bias_ticket = 0;
  };
  // Heads that are worked on together: as many as the buffer of packed queries holds.
  struct Section {
    std::int64_t begin, end;  // of (sequence, key head)
    std::vector<Task> tasks;
  };
  // Which blocks of keys a tile of queries sees.
  struct TileRange {
    std::int64_t first = 0, end = 0;
  };

  const Sequence& sequence(std::int64_t s) const { return problem_.sequences[static_cast<std::size_t>(s)]; }
  const ScoreRule& rule(std::int64_t s, std::int64_t h) const {
    return rules_[static_cast<std::size_t>(s * problem_.heads + h)];
  }
  std::int64_t row_of(std::int64_t s, std::int64_t h) const {
    return (sequence(s).batch * problem_.heads + h) * problem_.query_length + sequence(s).query_begin;
  }
  RowReferences references(std::int64_t s, std::int64_t h) const {
    const std::int64_t offset = row_of(s, h) * kernels_.real_bytes;
    return {.reference = statistics_.data() + offset, .rest = rests_ ? rests_->data() + offset : nullptr};
  }
  std::byte* delta(std::int64_t s, std::int64_t h) const {
    return statistics_.data() + (rows_ + row_of(s, h)) * kernels_.real_bytes;
  }

  // Calls body(sequence, head, begin, end) for chunks of queries.
  template <typename Body>
  void for_query_chunks(const Body& body) const {
    std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> chunks;
    for (std::int64_t s = 0; s < sequences_; ++s) {
      for (std::int64_t h = 0; h < problem_.heads; ++h) {
        for (std::int64_t q = 0; q < sequence(s).query_length; q += kRowChunk) chunks.emplace_back(s, h, q);
      }
    }
    parallel_for(static_cast<std::int64_t>(chunks.size()), [&](std::int64_t t, int) {
      const auto [s, h, q] = chunks[static_cast<std::size_t>(t)];
      body(s, h, q, std::min(q + kRowChunk, sequence(s).query_length));
    });
  }

  void row_statistics() const {
    for_query_chunks([&](std::int64_t s, std::int64_t h, std::int64_t begin, std::int64_t end) {
      const Sequence& q = sequence(s);
      const auto at = [&](const Tensor& tensor) -> const std::byte* {
        if (!tensor.defined()) return nullptr;
        return static_cast<const std::byte*>(tensor.raw_data()) + (row_of(s, h) + begin) * kernels_.real_bytes;
      };
      RowStatisticsTask task = {.output = rows_of(inputs_.output, q.batch, h, q.query_begin + begin),
                                .d_output = {},
                                .logsumexp = at(inputs_.logsumexp),
                                .d_logsumexp = at(inputs_.d_logsumexp),
                                .rows = end - begin,
                                .value_dim = problem_.value_dim,
                                .reference = statistics_.data() + (row_of(s, h) + begin) * kernels_.real_bytes,
                                .delta = delta(s, h) + begin * kernels_.real_bytes};
      if (inputs_.d_output.defined()) task.d_output = rows_of(inputs_.d_output, q.batch, h, q.query_begin + begin);
      const auto bytes = static_cast<std::size_t>(2 * (problem_.value_dim + 16) * kernels_.real_bytes);
      kernels_.row_statistics(task, thread_scratch(kAttentionPackSlot, bytes));
    });
  }

  Plane d_weights_plane(std::int64_t s, std::int64_t h) const {
    const Tensor& tensor = inputs_.d_weights;
    if (!tensor.defined()) return {};
    const bool mean = problem_.weights == Weights::mean;
    const Sequence& q = sequence(s);
    const std::int64_t offset = q.batch * tensor.stride(0) + (mean ? 0 : h * tensor.stride(1)) +
                                q.query_begin * tensor.stride(-2) + q.key_begin * tensor.stride(-1);
    const auto bytes = static_cast<std::int64_t>(item_size(tensor.dtype()));
    return {.data = static_cast<const std::byte*>(tensor.raw_data()) + offset * bytes,
            .row_stride = tensor.stride(-2),
            .column_stride = tensor.stride(-1),
            .dtype = tensor.dtype()};
  }
  double d_weights_factor() const {
    return problem_.weights == Weights::mean ? 1.0 / static_cast<double>(problem_.heads) : 1.0;
  }

  void pack_keys() {
    std::size_t bytes = 0;
    for (std::int64_t s = 0; s < sequences_; ++s) {
      for (std::int64_t h = 0; h < problem_.kv_heads; ++h) {
        key_offsets_.push_back(bytes);
        bytes += (kernels_.packed_keys_bytes(sequence(s).key_count, problem_.head_dim) + 63) / 64 * 64;
      }
    }
    packed_keys_ = std::make_unique<ScratchBuffer>(bytes);
    parallel_for(sequences_ * problem_.kv_heads, [&](std::int64_t t, int) {
      const std::int64_t s = t / problem_.kv_heads;
      kernels_.pack_keys(
          {.source = rows_of(problem_.key, sequence(s).batch, t % problem_.kv_heads, sequence(s).key_begin),
           .begin = 0,
           .end = sequence(s).key_count,
           .dim = problem_.head_dim,
           .factor = problem_.scale,
           .packed = packed_keys_->data() + key_offsets_[static_cast<std::size_t>(t)]});
    });
  }

  WeightsHead weights_head(std::int64_t s, std::int64_t h) const {
    const auto kv_head = static_cast<std::size_t>(s * problem_.kv_heads + h / problem_.group());
    WeightsHead head = {
        .query = rows_of(problem_.query, sequence(s).batch, h, sequence(s).query_begin),
        .packed_keys = packed_keys_->data() + key_offsets_[kv_head],
        .logsumexp = static_cast<const std::byte*>(inputs_.logsumexp.raw_data()) + row_of(s, h) * kernels_.real_bytes,
        .rule = &rule(s, h),
        .references = {}};
    if (rests_) head.references = references(s, h);
    return head;
  }

  // Rows whose log-sum-exp is large are summed once more, before anything is computed from it.
  void find_references() {
    rests_ = std::make_unique<ScratchBuffer>(static_cast<std::size_t>(rows_ * kernels_.real_bytes));
    const std::size_t workspace_bytes = kernels_.forward_workspace(problem_.head_dim, problem_.value_dim);
    for_query_chunks([&](std::int64_t s, std::int64_t h, std::int64_t begin, std::int64_t end) {
      kernels_.references({.head = weights_head(s, h),
                           .query_begin = begin,
                           .query_end = end,
                           .head_dim = problem_.head_dim,
                           .scale = problem_.scale,
                           .has_sink = !problem_.sinks.empty(),
                           .sink = problem_.sinks.empty() ? 0 : problem_.sinks[static_cast<std::size_t>(h)]},
                          thread_scratch(kAttentionWorkspaceSlot, workspace_bytes));
    });
  }

  // The softmax's own backward needs sum(P * d_weights) of every row before the first tile.
  void add_weights_dot() const {
    const std::size_t workspace_bytes = kernels_.forward_workspace(problem_.head_dim, problem_.value_dim);
    for_query_chunks([&](std::int64_t s, std::int64_t h, std::int64_t begin, std::int64_t end) {
      const WeightsDotTask task = {.head = weights_head(s, h),
                                   .query_begin = begin,
                                   .query_end = end,
                                   .head_dim = problem_.head_dim,
                                   .scale = problem_.scale,
                                   .d_weights = d_weights_plane(s, h),
                                   .factor = d_weights_factor(),
                                   .delta = delta(s, h)};
      kernels_.weights_dot(task, thread_scratch(kAttentionWorkspaceSlot, workspace_bytes));
    });
  }

  // A sink is one more score without a value: d_sink = sum over rows of P_sink * (0 - delta).
  void sink_gradients() const {
    std::vector<double> sums(static_cast<std::size_t>(problem_.heads), 0.0);
    const auto real_at = [&](const void* data, std::int64_t i) {
      return kernels_.real_bytes == 8 ? static_cast<const double*>(data)[i]
                                      : static_cast<double>(static_cast<const float*>(data)[i]);
    };
    parallel_for(problem_.heads, [&](std::int64_t h, int) {
      const double sink = problem_.sinks[static_cast<std::size_t>(h)];
      for (std::int64_t s = 0; s < sequences_; ++s) {
        const RowReferences rows = references(s, h);
        for (std::int64_t q = 0; q < sequence(s).query_length; ++q) {
          const double rest = rows.rest ? real_at(rows.rest, q) : 0.0;
          const double p = std::exp2(sink * 1.4426950408889634 - real_at(rows.reference, q) - rest);
          if (p > 0) sums[static_cast<std::size_t>(h)] -= p * real_at(delta(s, h), q);
        }
      }
    });
    gradients_.sinks.copy_from(Tensor::from(sums, {problem_.heads}));
  }

  // ---- tiles, tasks and tickets ----

  std::int64_t tile_count(std::int64_t s) const {
    return divide_up(sequence(s).query_length, kernels_.backward_queries);
  }
  // Raw scores have gradients at masked keys too.
  bool reaches_masked_keys() const {
    return inputs_.d_weights.defined() &&
           (problem_.weights_of == WeightsOf::scores || problem_.weights_of == WeightsOf::softcapped);
  }
  std::int64_t reachable_keys(std::int64_t s) const {
    return reaches_masked_keys() ? sequence(s).key_length : sequence(s).key_count;
  }

  void make_tiles() {
    for (std::int64_t s = 0; s < sequences_; ++s) {
      first_tile_.push_back(static_cast<std::int64_t>(ranges_.size()));
      for (std::int64_t i = 0; i < tile_count(s); ++i) {
        const std::int64_t begin = i * kernels_.backward_queries;
        const std::int64_t end = std::min(begin + kernels_.backward_queries, sequence(s).query_length);
        const ScoreRule& limits = rule(s, 0);
        const std::int64_t first = limits.first_key(begin), last = limits.end_key(end - 1);
        TileRange range;
        if (reaches_masked_keys()) {
          range = {0, block_count(s)};
        } else if (last > first) {
          range = {first / kernels_.backward_keys, (last - 1) / kernels_.backward_keys + 1};
        }
        ranges_.push_back(range);
      }
    }
    d_query_locks_ = std::make_unique<TicketLock>(static_cast<std::int64_t>(ranges_.size()) * problem_.heads);
    if (problem_.query.dtype() == DType::bfloat16 || problem_.query.dtype() == DType::float16) {
      d_query_sums_ =
          std::make_unique<ScratchBuffer>(static_cast<std::size_t>(rows_ * problem_.head_dim) * sizeof(float));
    }
  }

  // Tasks write only visible pairs of queries and keys; everything else is zero.
  void clear_unreached() const {
    const auto clear = [](const Tensor& gradient, std::int64_t batch, std::int64_t head, std::int64_t begin,
                          std::int64_t end) {
      if (begin >= end) return;
      const Rows rows = rows_of(gradient, batch, head, begin);
      const std::size_t bytes = item_size(rows.dtype);
      for (std::int64_t row = 0; row < end - begin; ++row) {
        std::memset(rows.data + row * rows.stride * static_cast<std::int64_t>(bytes), 0,
                    static_cast<std::size_t>(gradient.size(3)) * bytes);
      }
    };
    for (std::int64_t s = 0; s < sequences_; ++s) {
      const Sequence& q = sequence(s);
      const std::int64_t first = q.key_begin + reachable_keys(s), end = q.key_begin + q.key_length;
      for (std::int64_t h = 0; h < problem_.kv_heads; ++h) {
        clear(gradients_.key, q.batch, h, first, end);
        clear(gradients_.value, q.batch, h, first, end);
      }
      for (std::int64_t i = 0; i < tile_count(s); ++i) {
        const TileRange& range = ranges_[static_cast<std::size_t>(first_tile_[static_cast<std::size_t>(s)] + i)];
        if (range.end > range.first) continue;
        const std::int64_t begin = i * kernels_.backward_queries;
        const std::int64_t last = std::min(begin + kernels_.backward_queries, q.query_length);
        for (std::int64_t h = 0; h < problem_.heads; ++h) {
          clear(gradients_.query, q.batch, h, q.query_begin + begin, q.query_begin + last);
        }
      }
    }
  }

  std::int64_t block_count(std::int64_t s) const { return divide_up(reachable_keys(s), kernels_.backward_keys); }

  void make_tasks() {
    const std::int64_t heads = sequences_ * problem_.kv_heads;
    packed_tiles_.assign(static_cast<std::size_t>(heads), 0);
    std::int64_t most = 0;
    for (std::int64_t begin = 0; begin < heads;) {
      Section section = {begin, begin, {}};
      std::int64_t tiles = 0;
      for (; section.end < heads; ++section.end) {
        const std::int64_t more = tile_count(section.end / problem_.kv_heads) * problem_.group();
        const bool full = static_cast<std::size_t>(tiles + more) * packed_bytes_ > kSectionBytes;
        if (full && section.end > begin) break;
        packed_tiles_[static_cast<std::size_t>(section.end)] = tiles;
        tiles += more;
      }
      most = std::max(most, tiles);
      add_tasks(section);
      begin = section.end;
      sections_.push_back(std::move(section));
    }
    packed_ = std::make_unique<ScratchBuffer>(static_cast<std::size_t>(most) * packed_bytes_);
    if (gradients_.bias.defined()) make_bias_tickets();
  }

  // Neighbours in the list run at the same time. Blocks of different heads seldom wait for one another; with a bias
  // gradient, which heads may share, blocks of different keys do.
  void add_tasks(Section& section) const {
    const auto add = [&](std::int64_t head, std::int64_t block) {
      const std::int64_t s = head / problem_.kv_heads;
      if (block < block_count(s)) section.tasks.push_back({s, head % problem_.kv_heads, block});
    };
    std::int64_t most = 0;
    for (std::int64_t head = section.begin; head < section.end; ++head) {
      most = std::max(most, block_count(head / problem_.kv_heads));
    }
    if (gradients_.bias.defined()) {
      for (std::int64_t head = section.begin; head < section.end; ++head) {
        for (std::int64_t block = 0; block < most; ++block) add(head, block);
      }
    } else {
      for (std::int64_t block = 0; block < most; ++block) {
        for (std::int64_t head = section.begin; head < section.end; ++head) add(head, block);
      }
    }
  }

  // Tasks that add to the same entries of the bias gradient share a lock and have tickets in their order.
  void make_bias_tickets() {
    const Tensor& bias = gradients_.bias;
    const bool by_query = bias.size(2) > 1, by_key = bias.size(3) > 1;
    const bool by_sequence = problem_.packed ? by_query || by_key : bias.size(0) > 1;
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::pair<std::int64_t, std::int64_t>> cells;
    for (Section& section : sections_) {
      for (Task& task : section.tasks) {
        const auto key = std::make_tuple(by_sequence ? task.sequence : 0, bias.size(1) > 1 ? task.kv_head : 0,
                                         by_key ? task.block : 0);
        const auto [cell, added] = cells.try_emplace(key, static_cast<std::int64_t>(cells.size()), 0);
        task.bias_cell = cell->second.first;
        task.bias_ticket = cell->second.second++;
      }
    }
    bias_locks_ = std::make_unique<TicketLock>(static_cast<std::int64_t>(cells.size()));
  }

  BiasGradient bias_gradient(std::int64_t s, std::int64_t h) const {
    const Tensor& bias = gradients_.bias;
    const auto stride = [&](int dim) { return bias.size(dim) > 1 ? bias.stride(dim) : 0; };
    const Sequence& q = sequence(s);
    const std::int64_t offset =
        q.batch * stride(0) + h * stride(1) + q.query_begin * stride(2) + q.key_begin * stride(3);
    return {.data = static_cast<std::byte*>(bias.raw_data()) + offset * kernels_.real_bytes,
            .row_stride = stride(2),
            .column_stride = stride(3)};
  }

  void key_blocks() const {
    const std::size_t workspace = kernels_.backward_workspace(problem_.head_dim, problem_.value_dim);
    for (const Section& section : sections_) {
      pack_queries(section);
      parallel_for(static_cast<std::int64_t>(section.tasks.size()), [&](std::int64_t t, int) {
        run_task(section.tasks[static_cast<std::size_t>(t)], task_workspace(workspace));
      });
    }
  }

  // The one thing that can fail in a task. Others may wait for this task, and must not do so forever.
  std::byte* task_workspace(std::size_t bytes) const {
    try {
      return thread_scratch(kAttentionWorkspaceSlot, bytes);
    } catch (...) {
      d_query_locks_->cancel();
      if (bias_locks_) bias_locks_->cancel();
      throw;
    }
  }

  void pack_queries(const Section& section) const {
    struct Pack {
      std::int64_t sequence, head, tile;
    };
    std::vector<Pack> packs;
    for (std::int64_t head = section.begin; head < section.end; ++head) {
      const std::int64_t s = head / problem_.kv_heads, first = head % problem_.kv_heads * problem_.group();
      for (std::int64_t h = first; h < first + problem_.group(); ++h) {
        for (std::int64_t i = 0; i < tile_count(s); ++i) packs.push_back({s, h, i});
      }
    }
    parallel_for(static_cast<std::int64_t>(packs.size()), [&](std::int64_t t, int) {
      const auto [s, h, i] = packs[static_cast<std::size_t>(t)];
      kernels_.backward_pack(make_tile(s, h, i), problem_.head_dim, problem_.value_dim, problem_.scale);
    });
  }

  void run_task(const Task& task, std::byte* workspace) const {
    const Sequence& q = sequence(task.sequence);
    const std::int64_t begin = task.block * kernels_.backward_keys;
    const BackwardBlock block = {.key = rows_of(problem_.key, q.batch, task.kv_head, q.key_begin),
                                 .value = rows_of(problem_.value, q.batch, task.kv_head, q.key_begin),
                                 .key_begin = begin,
                                 .key_end = std::min(begin + kernels_.backward_keys, reachable_keys(task.sequence)),
                                 .head_dim = problem_.head_dim,
                                 .value_dim = problem_.value_dim,
                                 .scale = problem_.scale,
                                 .workspace = workspace};
    kernels_.backward_begin(block);
    for (std::int64_t h = task.kv_head * problem_.group(); h < (task.kv_head + 1) * problem_.group(); ++h) {
      for (std::int64_t i = 0; i < tile_count(task.sequence); ++i) {
        const std::int64_t index = first_tile_[static_cast<std::size_t>(task.sequence)] + i;
        const TileRange& range = ranges_[static_cast<std::size_t>(index)];
        if (task.block < range.first || task.block >= range.end) continue;
        BackwardTile tile = make_tile(task.sequence, h, i);
        tile.first_keys = task.block == range.first;
        tile.last_keys = task.block + 1 == range.end;
        if (i + 1 < tile_count(task.sequence)) tile.next_packed = tile.packed + packed_bytes_;
        kernels_.backward_tile(block, tile);
        const std::int64_t cell = index * problem_.heads + h;
        if (!d_query_locks_->wait(cell, task.block - range.first)) return;
        kernels_.backward_query(block, tile);
        d_query_locks_->next(cell);
        if (tile.wants_bias) {
          if (!bias_locks_->wait(task.bias_cell, task.bias_ticket)) return;
          kernels_.backward_bias(block, tile, bias_gradient(task.sequence, h));
        }
      }
    }
    if (bias_locks_) {
      if (!bias_locks_->wait(task.bias_cell, task.bias_ticket)) return;
      bias_locks_->next(task.bias_cell);
    }
    kernels_.backward_end(block, rows_of(gradients_.key, q.batch, task.kv_head, q.key_begin),
                          rows_of(gradients_.value, q.batch, task.kv_head, q.key_begin));
  }

  // Tile i of the queries of one head.
  BackwardTile make_tile(std::int64_t s, std::int64_t h, std::int64_t i) const {
    const Sequence& q = sequence(s);
    BackwardTile tile;
    tile.query = rows_of(problem_.query, q.batch, h, q.query_begin);
    if (inputs_.d_output.defined()) tile.d_output = rows_of(inputs_.d_output, q.batch, h, q.query_begin);
    tile.references = references(s, h);
    tile.delta = delta(s, h);
    tile.query_begin = i * kernels_.backward_queries;
    tile.query_end = std::min(tile.query_begin + kernels_.backward_queries, q.query_length);
    const std::int64_t kv_head = h / problem_.group();
    const std::int64_t index = packed_tiles_[static_cast<std::size_t>(s * problem_.kv_heads + kv_head)] +
                               h % problem_.group() * tile_count(s) + i;
    tile.packed = packed_->data() + static_cast<std::size_t>(index) * packed_bytes_;
    tile.rule = &rule(s, h);
    tile.d_weights = d_weights_plane(s, h);
    tile.d_weights_factor = d_weights_factor();
    tile.weights_kind = weights_kind(problem_.weights_of);
    tile.wants_bias = gradients_.bias.defined();
    tile.d_query = rows_of(gradients_.query, q.batch, h, q.query_begin);
    tile.d_query_stride = d_query_sums_ ? problem_.head_dim : tile.d_query.stride;
    tile.d_query_sums = d_query_sums_ ? d_query_sums_->data() + row_of(s, h) * problem_.head_dim * kernels_.real_bytes
                                      : tile.d_query.data;
    return tile;
  }

  const AttentionProblem& problem_;
  const AttentionBackwardInputs& inputs_;
  AttentionGradients& gradients_;
  const AttentionKernels& kernels_;
  const std::vector<ScoreRule> rules_;  // (sequences, heads)
  const std::int64_t sequences_;
  const std::int64_t rows_;                      // batch * heads * query_length
  const ScratchBuffer statistics_;               // (2, batch, heads, query_length): references of P, delta
  std::unique_ptr<ScratchBuffer> rests_;         // (batch, heads, query_length), where a log-sum-exp is large
  std::unique_ptr<ScratchBuffer> packed_keys_;   // of all heads, for what comes before the tiles
  std::vector<std::size_t> key_offsets_;         // (sequences, kv_heads): bytes into packed_keys_
  std::unique_ptr<ScratchBuffer> d_query_sums_;  // (batch, heads, query_length, head_dim) for 16-bit gradients
  std::vector<std::int64_t> first_tile_;         // (sequences): index into ranges_
  std::vector<TileRange> ranges_;                // (sequences, tiles)
  const std::size_t packed_bytes_;               // of one packed tile of queries
  std::unique_ptr<ScratchBuffer> packed_;        // the packed queries of one section
  std::vector<std::int64_t> packed_tiles_;       // (sequences, kv_heads): the first tile in packed_
  std::vector<Section> sections_;
  std::unique_ptr<TicketLock> d_query_locks_;  // (tiles, heads)
  std::unique_ptr<TicketLock> bias_locks_;
};

}  // namespace

void CpuBackend::attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                                    AttentionGradients& gradients) {
  BackwardPlan(problem, inputs, gradients).run();
}

}  // namespace headway::inline v0::internal::cpu
