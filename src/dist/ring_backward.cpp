// The backward of ring attention: keys and values come by again; what a rank adds to the gradients of a share goes
// straight to the share's own rank, while the next share is computed.
#include <utility>

#include "backend/registry.h"
#include "dist/key_ring.h"
#include "dist/ring_attention.h"
#include "headway/ops.h"
#include "ops/attention.h"
#include "ops/attention_checks.h"

namespace headway::inline v0::internal {
namespace {

// Gradients of the keys and values of some ranges, in the dtype of sums; undefined where zero.
struct KeyGradients {
  std::vector<Tensor> key, value;

  explicit KeyGradients(std::size_t ranges) : key(ranges), value(ranges) {}
};

// What belongs to one range of this rank's queries.
struct RangeInputs {
  AttentionBackwardInputs given;
  Tensor d_query;  // so far, in the dtype of sums
};

// A bias's gradient: four dimensions, 1 where it was broadcast.
Shape bias_sums_shape(const Tensor& bias) {
  Shape shape = Shape::filled(4, 1);
  for (int i = 1; i <= bias.rank(); ++i) shape[-i] = bias.size(-i);
  return shape;
}

class RingBackward {
 public:
  RingBackward(const SequenceCall& call, const AttentionBackwardInputs& inputs, const Tensor& bias, const Tensor& sinks)
      : call_(call),
        whole_(call.whole),
        dtype_(sums_dtype(call.whole)),
        queries_(call.queries.of(call.rank())),
        bias_(bias),
        sinks_(sinks),
        own_(call.keys.of(call.rank()).size()) {
    std::int64_t row = 0;
    for (const TokenRange& range : queries_) {
      const auto rows = [&](const Tensor& tensor, int dim) {
        return tensor.defined() ? tensor.slice(dim, row, row + range.size()) : tensor;
      };
      const auto dense = [](const Tensor& tensor) { return tensor.defined() ? tensor.contiguous() : tensor; };
      ranges_.push_back({{.output = rows(inputs.output, 2),
                          .logsumexp = dense(rows(inputs.logsumexp, 2)),
                          .d_output = rows(inputs.d_output, 2),
                          .d_weights = rows(inputs.d_weights, -2),
                          .d_logsumexp = dense(rows(inputs.d_logsumexp, 2))},
                         {}});
      row += range.size();
    }
    if (bias.defined()) d_bias_ = Tensor::zeros(bias_sums_shape(bias), dtype_, whole_.query.device());
  }

  AttentionGradients run() {
    if (call_.has_whole_rows) {
      with_whole_rows();
    } else {
      around_the_ring();
      if (sinks_.defined()) sinks_of_rows();
    }
    return finish();
  }

 private:
  // The gradients of one piece; adds those of queries, bias and sinks.
  void add_piece(const AttentionProblem& problem, const SequencePiece& piece, KeyGradients& keys) {
    RangeInputs& range = ranges_[piece.query_range];
    const auto make = [&](const Tensor& like) {
      return Tensor::empty(like.shape(), piece_dtype(whole_), like.device());
    };
    AttentionGradients gradients;
    gradients.query = make(problem.query);
    gradients.key = make(problem.key);
    gradients.value = make(problem.value);
    const Tensor bias = d_bias_.defined() ? bias_part(piece) : Tensor();
    attention_backward_into(problem, range.given,
                            {.bias = bias, .sinks = problem.sinks.empty() ? Tensor() : sinks_form()}, gradients);
    add_to(range.d_query, gradients.query, dtype_);
    add_to(keys.key[piece.key_range], gradients.key, dtype_);
    add_to(keys.value[piece.key_range], gradients.value, dtype_);
    if (bias.defined()) Tensor(bias).copy_from(add(bias, gradients.bias));
    if (gradients.sinks.defined()) add_to(d_sinks_, gradients.sinks, DType::float64);
  }

  // Where a piece's part of the bias's gradient lies.
  Tensor bias_part(const SequencePiece& piece) const {
    Tensor part = d_bias_;
    if (part.size(2) > 1) part = part.slice(2, piece.first_query, piece.first_query + piece.queries.size());
    if (part.size(3) > 1) part = part.slice(3, piece.keys.begin, piece.keys.end);
    return part;
  }

  // Their gradients are summed in the widest dtype.
  Tensor sinks_form() const { return Tensor::empty({whole_.heads}, DType::float64, sinks_.device()); }

  // ---- keys and values in turn ----

  void around_the_ring() {
    for (KeyRing ring(call_, whole_.key, whole_.value); ring.is_open(); ring.advance()) {
      ring.start_next();
      KeyGradients keys = ring.step() == 0 ? std::move(own_) : KeyGradients(call_.keys.of(ring.owner()).size());
      if (ring.is_needed()) {
        for (const SequencePiece& piece : cut_pieces(queries_, call_.keys.of(ring.owner()))) {
          if (!has_visible_scores(whole_, piece)) continue;
          add_piece(piece_problem(whole_, ring.key(), ring.value(), piece), piece, keys);
          ring.poll();
          home_.done();
        }
      }
      if (ring.step() == 0) {
        own_ = std::move(keys);
      } else {
        receive_home();
        send_home(ring, keys);
      }
    }
    receive_home();
  }

  // At step i this rank has added to the share of the rank i before it, and the rank i after it has added to its own.
  void send_home(const KeyRing& ring, const KeyGradients& keys) {
    std::vector<Communicator::Sent> sent;
    std::vector<Communicator::Received> received;
    if (ring.is_needed()) {
      sent = {{share_of(keys.key, ring.owner(), whole_.key), ring.owner()},
              {share_of(keys.value, ring.owner(), whole_.value), ring.owner()}};
    }
    const int from = (call_.rank() + ring.step()) % call_.size();
    if (needs_share(call_, from, call_.rank())) {
      home_key_ = Tensor::empty(whole_.key.shape(), whole_.key.dtype(), whole_.key.device());
      home_value_ = Tensor::empty(whole_.value.shape(), whole_.value.dtype(), whole_.value.device());
      received = {{home_key_, from}, {home_value_, from}};
    }
    home_ = call_.ranks.start_messages(sent, received);
  }

  void receive_home() {
    home_.wait();
    home_ = Transfer();
    if (!home_key_.defined()) return;
    add_share(std::exchange(home_key_, Tensor()), std::exchange(home_value_, Tensor()));
  }

  // Adds what another rank has found for this rank's share.
  void add_share(const Tensor& key, const Tensor& value) {
    const std::vector<TokenRange>& ranges = call_.keys.of(call_.rank());
    std::int64_t row = 0;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const std::int64_t end = row + ranges[i].size();
      add_to(own_.key[i], key.slice(2, row, end), dtype_);
      add_to(own_.value[i], value.slice(2, row, end), dtype_);
      row = end;
    }
  }

  // The gradients of a rank's ranges as one tensor [batch, kv_heads, its keys, dim] in the dtype of `like`.
  Tensor share_of(const std::vector<Tensor>& gradients, int rank, const Tensor& like) const {
    const Shape shape = {like.size(0), like.size(1), call_.keys.size(rank), like.size(3)};
    Tensor share = empty_in_order_of(like, shape, like.dtype());
    const std::vector<TokenRange>& ranges = call_.keys.of(rank);
    std::int64_t row = 0;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      Tensor rows = share.slice(2, row, row + ranges[i].size());
      gradients[i].defined() ? rows.copy_from(gradients[i]) : rows.fill(0);
      row += ranges[i].size();
    }
    return share;
  }

  // The sinks' gradient follows from the rows alone.
  void sinks_of_rows() {
    std::int64_t row = 0;
    for (const RangeInputs& range : ranges_) {
      const std::int64_t rows = range.given.logsumexp.size(2);
      AttentionProblem problem = keyless_problem(whole_, row, rows);
      AttentionGradients gradients;
      attention_backward_into(problem, range.given, {.bias = {}, .sinks = sinks_form()}, gradients);
      add_to(d_sinks_, gradients.sinks, DType::float64);
      row += rows;
    }
  }

  // ---- all keys at once ----

  void with_whole_rows() {
    const WholeKeys whole = gather_keys(call_, whole_.key, whole_.value);
    KeyGradients keys(1);
    for (const SequencePiece& piece : cut_pieces(queries_, {{0, call_.keys.length()}})) {
      add_piece(whole_rows_problem(call_, whole.key, whole.value, piece), piece, keys);
    }
    std::vector<Tensor> d_key, d_value, got_key, got_value;
    for (int rank = 0; rank < call_.size(); ++rank) {
      d_key.push_back(part_of(keys.key[0], rank, whole_.key));
      d_value.push_back(part_of(keys.value[0], rank, whole_.value));
      got_key.push_back(Tensor::empty(whole_.key.shape(), whole_.key.dtype(), whole_.key.device()));
      got_value.push_back(Tensor::empty(whole_.value.shape(), whole_.value.dtype(), whole_.value.device()));
    }
    const Transfer key = call_.ranks.start_all_to_all(d_key, got_key);
    const Transfer value = call_.ranks.start_all_to_all(d_value, got_value);
    key.wait();
    value.wait();
    for (std::size_t rank = 0; rank < got_key.size(); ++rank) {
      if (call_.queries.size(static_cast<int>(rank)) > 0) add_share(got_key[rank], got_value[rank]);
    }
  }

  // A rank's tokens of whole gradients, which are undefined where zero.
  Tensor part_of(const Tensor& gradient, int rank, const Tensor& like) const {
    Shape shape = like.shape();
    shape[2] = call_.keys.size(rank);
    if (!gradient.defined()) return Tensor::zeros(shape, like.dtype(), like.device());
    return call_.keys.take(gradient, rank, 2).to(like.dtype());
  }

  AttentionGradients finish() {
    AttentionGradients result;
    result.query = empty_in_order_of(whole_.query, whole_.query.shape(), whole_.query.dtype());
    std::int64_t row = 0;
    for (const RangeInputs& range : ranges_) {
      const std::int64_t end = row + range.given.logsumexp.size(2);
      Tensor rows = result.query.slice(2, row, end);
      range.d_query.defined() ? rows.copy_from(range.d_query) : rows.fill(0);
      row = end;
    }
    result.key = share_of(own_.key, call_.rank(), whole_.key);
    result.value = share_of(own_.value, call_.rank(), whole_.value);
    if (bias_.defined()) result.bias = d_bias_.to(bias_.dtype()).reshape(bias_.shape());
    if (sinks_.defined()) {
      result.sinks = d_sinks_.defined() ? d_sinks_.to(sinks_.dtype())
                                        : Tensor::zeros(sinks_.shape(), sinks_.dtype(), sinks_.device());
    }
    return result;
  }

  const SequenceCall& call_;
  const AttentionProblem& whole_;
  const DType dtype_;
  const std::vector<TokenRange>& queries_;
  const Tensor bias_;   // as the caller passed it; undefined: no gradient is wanted
  const Tensor sinks_;  // likewise
  std::vector<RangeInputs> ranges_;
  KeyGradients own_;
  Tensor d_bias_;   // [batch, heads, rows of this rank, keys], 1 where broadcast
  Tensor d_sinks_;  // [heads] float64
  Transfer home_;   // gradients on their way to their rank
  Tensor home_key_, home_value_;
};

}  // namespace

void add_to(Tensor& sum, const Tensor& more, DType dtype) {
  const Tensor dense = more.to(dtype).contiguous();
  if (!sum.defined()) {
    sum = dense;
  } else if (sum.element_count() > 0) {
    memory_of(sum.device()).accumulate(dtype, sum.element_count(), sum.raw_data(), dense.raw_data());
  }
}

AttentionGradients ring_backward(const SequenceCall& call, const AttentionBackwardInputs& inputs, const Tensor& bias,
                                 const Tensor& sinks) {
  return RingBackward(call, inputs, bias, sinks).run();
}

}  // namespace headway::inline v0::internal
