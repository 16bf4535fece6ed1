#include "support/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/random.h"
#include "support/sequences.h"

namespace headway_test {
namespace {

using headway::AttentionBackward;
using headway::AttentionOptions;
using headway::DType;
using headway::Tensor;
using headway::Weights;
using headway::WeightsOf;
using headway::internal::DropoutRule;
using std::int64_t;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_16_bit(DType dtype) { return dtype == DType::bfloat16 || dtype == DType::float16; }

double round_to(DType dtype, double value) {
  if (dtype == DType::bfloat16) return static_cast<float>(headway::bfloat16(static_cast<float>(value)));
  if (dtype == DType::float16) return static_cast<float>(headway::float16(static_cast<float>(value)));
  if (dtype == DType::float32) return static_cast<float>(value);
  return value;
}

// Values with four indices; a dimension of size 1 repeats, so that adding to an element sums over what was broadcast.
template <typename Real>
struct Array4 {
  std::vector<Real> values;
  std::array<int64_t, 4> strides = {};

  Array4() = default;
  explicit Array4(const Tensor& tensor, bool with_values = true) {
    if (with_values) {
      for (double value : tensor.to_vector()) values.push_back(static_cast<Real>(value));
    } else {
      values.assign(tensor.element_count(), Real(0));
    }
    int64_t step = 1;
    for (int dim = tensor.rank() - 1, slot = 3; dim >= 0; --dim, --slot) {
      strides[slot] = tensor.size(dim) == 1 ? 0 : step;
      step *= tensor.size(dim);
    }
  }
  Real& at(int64_t a, int64_t b, int64_t c, int64_t d) {
    return values[a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]];
  }
};

// Everything about one query of one head, over the keys of its sequence.
template <typename Real>
struct Row {
  std::vector<Real> score, capped, masked, weight;  // (key_count)
  std::vector<char> visible;                        // (key_count)
  Real logsumexp, sink_weight;
};

// The gradients that flow into one query's probabilities.
template <typename Real>
struct RowGradient {
  std::vector<Real> d_weight;  // (key_count)
  Real delta, d_logsumexp;
  double size;  // the largest |d_weight|
};

// A number and how large the terms were that it was made of.
template <typename Real>
struct Term {
  Real value;
  double size;
};

// The naive algorithm in the arithmetic of Real. `rounded` rounds as an implementation for 16-bit storage does.
template <typename Real>
class Naive {
 public:
  Naive(const AttentionBackward& problem, bool rounded);
  ForwardValues forward(ForwardSpread* spread);
  GradientValues backward(GradientSpread* spread);

 private:
  Row<Real> compute_row(const Sequence& s, int64_t head, int64_t i);
  bool is_visible(const Sequence& s, int64_t head, int64_t i, int64_t j);
  void forward_row(const Sequence& s, int64_t head, int64_t i, ForwardSpread* spread);
  void backward_row(const Sequence& s, int64_t head, int64_t i);
  RowGradient<Real> row_gradient(const Sequence& s, int64_t head, int64_t i, const Row<Real>& row);
  Real d_returned(const Sequence& s, int64_t head, int64_t i, int64_t j);
  void add_to_value(const Sequence& s, int64_t head, int64_t i, int64_t j, Real weight);
  double add_to_query_and_key(const Sequence& s, int64_t head, int64_t i, int64_t j, Term<Real> d_score);
  double keep_scale(const Sequence& s, int64_t head, int64_t i, int64_t j) const;
  Real operand(Real value) const { return rounded_ ? static_cast<Real>(round_to(storage_, value)) : value; }
  std::vector<double> stored(const std::vector<Real>& values, DType dtype) const;
  std::vector<double> stored_weights() const;

  const AttentionBackward& problem_;
  const AttentionOptions& options_;
  bool rounded_;
  DType storage_;
  int64_t heads_, kv_heads_, group_, head_dim_, value_dim_, query_length_, key_length_;
  Real scale_;
  DropoutRule dropout_;
  Array4<Real> query_, key_, value_;        // [batch, heads, length, dim]
  Array4<Real> key_across_, value_across_;  // [batch, kv_heads, dim, key_length]
  Array4<Real> bias_, slopes_, mask_, d_output_, d_weights_, d_logsumexp_;
  std::vector<double> sinks_;

  std::vector<Real> output_, logsumexp_, weights_;
  Array4<Real> d_query_, d_key_, d_value_, d_bias_;
  std::vector<Real> d_sinks_;
  Array4<double> key_squares_, value_squares_, bias_squares_;  // sums of the squares of the gradients' terms
  GradientSpread gradient_spread_;
};

template <typename Real>
Array4<Real> across(const Tensor& tensor) {
  return Array4<Real>(tensor.transpose(2, 3));
}

template <typename Real>
Naive<Real>::Naive(const AttentionBackward& problem, bool rounded)
    : problem_(problem),
      options_(problem.options),
      rounded_(rounded),
      storage_(problem.query.dtype()),
      heads_(problem.query.size(1)),
      kv_heads_(problem.key.size(1)),
      group_(kv_heads_ > 0 ? heads_ / kv_heads_ : 1),
      head_dim_(problem.query.size(3)),
      value_dim_(problem.value.size(3)),
      query_length_(problem.query.size(2)),
      key_length_(problem.key.size(2)),
      scale_(static_cast<Real>(options_.scale ? Real(*options_.scale) : 1 / std::sqrt(Real(head_dim_)))),
      dropout_(DropoutRule::make(options_.dropout, options_.seed)),
      query_(problem.query),
      key_(problem.key),
      value_(problem.value),
      key_across_(across<Real>(problem.key)),
      value_across_(across<Real>(problem.value)) {
  if (options_.bias.defined()) bias_ = Array4<Real>(options_.bias);
  if (options_.mask.defined()) mask_ = Array4<Real>(options_.mask.tensor());
  if (options_.alibi_slopes.defined()) slopes_ = Array4<Real>(options_.alibi_slopes);
  if (options_.sinks.defined()) sinks_ = options_.sinks.to_vector();
  if (problem.d_output.defined()) d_output_ = Array4<Real>(problem.d_output);
  if (problem.d_logsumexp.defined()) d_logsumexp_ = Array4<Real>(problem.d_logsumexp);
  if (problem.d_weights.defined()) {
    const bool mean = options_.weights == Weights::mean;
    d_weights_ = Array4<Real>(mean ? problem.d_weights.unsqueeze(1) : problem.d_weights);
  }
}

template <typename Real>
bool Naive<Real>::is_visible(const Sequence& s, int64_t head, int64_t i, int64_t j) {
  const int64_t position = i + s.offset;
  if (j >= s.key_length) return false;
  if (options_.causal != headway::Causal::none && j > position) return false;
  if (options_.window.left && position - j > *options_.window.left) return false;
  if (options_.window.right && j - position > *options_.window.right) return false;
  const int64_t query = s.query_begin + i, key = s.key_begin + j;
  if (options_.mask.defined() && (mask_.at(s.batch, head, query, key) != 0) != options_.mask.true_keeps()) return false;
  return !options_.bias.defined() || !(bias_.at(s.batch, head, query, key) <= Real(-1e30));
}

template <typename Real>
Row<Real> Naive<Real>::compute_row(const Sequence& s, int64_t head, int64_t i) {
  const size_t n = s.key_count;
  const int64_t kv_head = head / group_, query = s.query_begin + i;
  Row<Real> row = {std::vector<Real>(n),
                   std::vector<Real>(n),
                   std::vector<Real>(n),
                   std::vector<Real>(n),
                   std::vector<char>(n),
                   0,
                   0};
  // S = scale * Q K^T
  for (int64_t c = 0; n > 0 && c < head_dim_; ++c) {
    const Real q = query_.at(s.batch, head, query, c);
    const Real* k = &key_across_.at(s.batch, kv_head, c, s.key_begin);
    for (size_t j = 0; j < n; ++j) row.score[j] += q * k[j];
  }
  Real maximum = sinks_.empty() ? -kInfinity : static_cast<Real>(sinks_[head]);
  for (size_t j = 0; j < n; ++j) {
    row.score[j] *= scale_;
    row.capped[j] = row.score[j];
    if (options_.softcap) {
      const Real cap = static_cast<Real>(*options_.softcap);
      row.capped[j] = cap * std::tanh(row.score[j] / cap);
    }
    row.visible[j] = is_visible(s, head, i, j);
    if (!row.visible[j]) {
      row.masked[j] = -kInfinity;
      continue;
    }
    row.masked[j] = row.capped[j];
    if (options_.alibi_slopes.defined()) {
      const int64_t distance = std::abs(i + s.offset - static_cast<int64_t>(j));
      row.masked[j] -= slopes_.at(0, 0, s.index, head) * static_cast<Real>(distance);
    }
    if (options_.bias.defined()) row.masked[j] += bias_.at(s.batch, head, query, s.key_begin + j);
    maximum = std::max(maximum, row.masked[j]);
  }
  // P = exp(S - logsumexp), the sink being one more score
  Real sum = sinks_.empty() ? Real(0) : std::exp(static_cast<Real>(sinks_[head]) - maximum);
  for (size_t j = 0; j < n; ++j) {
    if (row.visible[j]) sum += std::exp(row.masked[j] - maximum);
  }
  row.logsumexp = maximum == -kInfinity ? Real(-kInfinity) : maximum + std::log(sum);
  if (maximum == -kInfinity) std::fill(row.visible.begin(), row.visible.end(), 0);
  for (size_t j = 0; j < n; ++j) {
    if (row.visible[j]) row.weight[j] = std::exp(row.masked[j] - maximum) / sum;
  }
  if (!sinks_.empty()) row.sink_weight = std::exp(static_cast<Real>(sinks_[head]) - maximum) / sum;
  return row;
}

template <typename Real>
double Naive<Real>::keep_scale(const Sequence& s, int64_t head, int64_t i, int64_t j) const {
  if (options_.dropout == 0) return 1;
  return dropout_.keep(s.index, head, i, j) ? dropout_.scale : 0;
}

template <typename Real>
void Naive<Real>::forward_row(const Sequence& s, int64_t head, int64_t i, ForwardSpread* spread) {
  const Row<Real> row = compute_row(s, head, i);
  const int64_t kv_head = head / group_, row_index = (s.batch * heads_ + head) * query_length_ + s.query_begin + i;
  logsumexp_[row_index] = row.logsumexp;
  Real* output = output_.data() + row_index * value_dim_;
  double output_squares = 0, score = 0;
  for (int64_t j = 0; j < s.key_count; ++j) {
    if (!row.visible[j]) continue;
    // O += P V
    const Real weight = operand(row.weight[j] * static_cast<Real>(keep_scale(s, head, i, j)));
    const Real* value = &value_.at(s.batch, kv_head, s.key_begin + j, 0);
    double largest = 0;
    for (int64_t c = 0; c < value_dim_; ++c) {
      output[c] += weight * value[c];
      largest = std::max(largest, std::abs(static_cast<double>(value[c])));
    }
    output_squares += weight * weight * largest * largest;
    if (row.weight[j] > 0) score += static_cast<double>(row.weight[j] * std::abs(row.masked[j]));
  }
  if (spread != nullptr) {
    spread->output = std::max(spread->output, std::sqrt(output_squares));
    spread->score = std::max(spread->score, score);
    if (row.logsumexp != -kInfinity) {
      spread->logsumexp = std::max(spread->logsumexp, std::abs(static_cast<double>(row.logsumexp)));
    }
  }
  if (options_.weights == Weights::none) return;
  const auto& source = options_.weights_of == WeightsOf::softmax      ? row.weight
                       : options_.weights_of == WeightsOf::scores     ? row.score
                       : options_.weights_of == WeightsOf::softcapped ? row.capped
                                                                      : row.masked;
  std::copy(source.begin(), source.end(), weights_.begin() + row_index * key_length_ + s.key_begin);
}

template <typename Real>
std::vector<double> Naive<Real>::stored(const std::vector<Real>& values, DType dtype) const {
  std::vector<double> result;
  result.reserve(values.size());
  for (Real value : values) {
    result.push_back(rounded_ ? round_to(dtype, static_cast<double>(value)) : static_cast<double>(value));
  }
  return result;
}

// The weights [batch, heads, query, key] as they are returned: as they are, or averaged over the heads.
template <typename Real>
std::vector<double> Naive<Real>::stored_weights() const {
  if (options_.weights != Weights::mean) return stored(weights_, storage_);
  const int64_t matrix = query_length_ * key_length_, batch = problem_.query.size(0);
  std::vector<Real> mean(batch * matrix);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads_; ++h) {
      for (int64_t e = 0; e < matrix; ++e)
        mean[b * matrix + e] += weights_[(b * heads_ + h) * matrix + e] / Real(heads_);
    }
  }
  return stored(mean, storage_);
}

template <typename Real>
ForwardValues Naive<Real>::forward(ForwardSpread* spread) {
  const int64_t rows = problem_.query.size(0) * heads_ * query_length_;
  output_.assign(rows * value_dim_, Real(0));
  logsumexp_.assign(rows, Real(-kInfinity));
  // Places of a packed batch where query and key are of different sequences keep this value.
  const bool masked = options_.weights_of == WeightsOf::masked;
  if (options_.weights != Weights::none) weights_.assign(rows * key_length_, masked ? Real(-kInfinity) : Real(0));
  for (const Sequence& s : sequences_of(problem_)) {
    for (int64_t h = 0; h < heads_; ++h) {
      for (int64_t i = 0; i < s.query_count; ++i) forward_row(s, h, i, spread);
    }
  }
  return {stored(output_, storage_), std::vector<double>(logsumexp_.begin(), logsumexp_.end()), stored_weights()};
}

// dP of one row, and its sum D = sum of P dP.
template <typename Real>
RowGradient<Real> Naive<Real>::row_gradient(const Sequence& s, int64_t head, int64_t i, const Row<Real>& row) {
  const int64_t query = s.query_begin + i;
  const bool empty = row.logsumexp == -kInfinity, with_output = problem_.d_output.defined() && s.key_count > 0;
  RowGradient<Real> g = {std::vector<Real>(s.key_count), 0, 0, 0};
  if (problem_.d_logsumexp.defined() && !empty) g.d_logsumexp = d_logsumexp_.at(0, s.batch, head, query);
  // dP = dO V^T, with the dropout undone
  for (int64_t c = 0; with_output && c < value_dim_; ++c) {
    const Real d = d_output_.at(s.batch, head, query, c);
    const Real* v = &value_across_.at(s.batch, head / group_, c, s.key_begin);
    for (int64_t j = 0; j < s.key_count; ++j) g.d_weight[j] += d * v[j];
  }
  // Where results are rounded, D is taken from the rounded output as dO . O.
  const bool sees = std::find(row.visible.begin(), row.visible.end(), 1) != row.visible.end();
  if (rounded_ && sees && with_output) {
    const Real* output = output_.data() + ((s.batch * heads_ + head) * query_length_ + query) * value_dim_;
    for (int64_t c = 0; c < value_dim_; ++c) g.delta += d_output_.at(s.batch, head, query, c) * operand(output[c]);
  }
  for (int64_t j = 0; j < s.key_count; ++j) {
    if (!row.visible[j]) continue;
    const double keep = keep_scale(s, head, i, j);
    g.d_weight[j] = keep == 0 ? Real(0) : g.d_weight[j] * static_cast<Real>(keep);
    const Real returned = options_.weights_of == WeightsOf::softmax ? d_returned(s, head, i, j) : Real(0);
    g.delta += row.weight[j] * (rounded_ ? returned : g.d_weight[j] + returned);
    g.d_weight[j] += returned;
    g.size = std::max(g.size, std::abs(static_cast<double>(g.d_weight[j])));
  }
  return g;
}

// The gradient of the weight that was returned for one score.
template <typename Real>
Real Naive<Real>::d_returned(const Sequence& s, int64_t head, int64_t i, int64_t j) {
  if (!problem_.d_weights.defined()) return 0;
  const Real d = d_weights_.at(s.batch, head, s.query_begin + i, s.key_begin + j);
  return options_.weights == Weights::mean ? d / Real(heads_) : d;
}

// dV += P^T dO for one score.
template <typename Real>
void Naive<Real>::add_to_value(const Sequence& s, int64_t head, int64_t i, int64_t j, Real weight) {
  if (!problem_.d_output.defined() || value_dim_ == 0) return;
  const int64_t kv_head = head / group_, key = s.key_begin + j;
  const Real dropped = operand(weight * static_cast<Real>(keep_scale(s, head, i, j)));
  const Real* d_output = &d_output_.at(s.batch, head, s.query_begin + i, 0);
  Real* d_value = &d_value_.at(s.batch, kv_head, key, 0);
  double largest = 0;
  for (int64_t c = 0; c < value_dim_; ++c) {
    d_value[c] += dropped * d_output[c];
    largest = std::max(largest, std::abs(static_cast<double>(d_output[c])));
  }
  value_squares_.at(0, s.batch, kv_head, key) += std::pow(static_cast<double>(dropped) * largest, 2);
}

// dQ += scale * dS K and dK += scale * dS^T Q for one score. Returns the square of dQ's term.
template <typename Real>
double Naive<Real>::add_to_query_and_key(const Sequence& s, int64_t head, int64_t i, int64_t j, Term<Real> d_score) {
  const int64_t kv_head = head / group_, query = s.query_begin + i, key = s.key_begin + j;
  const Real d = operand(d_score.value) * scale_;
  const Real* q = &query_.at(s.batch, head, query, 0);
  const Real* k = &key_.at(s.batch, kv_head, key, 0);
  Real* d_query = &d_query_.at(s.batch, head, query, 0);
  Real* d_key = &d_key_.at(s.batch, kv_head, key, 0);
  double query_size = 0, key_size = 0;
  for (int64_t c = 0; c < head_dim_; ++c) {
    d_query[c] += d * k[c];
    d_key[c] += d * q[c];
    query_size = std::max(query_size, std::abs(static_cast<double>(q[c])));
    key_size = std::max(key_size, std::abs(static_cast<double>(k[c])));
  }
  const double size = d_score.size * static_cast<double>(scale_);
  key_squares_.at(0, s.batch, kv_head, key) += size * size * query_size * query_size;
  return size * size * key_size * key_size;
}

template <typename Real>
void Naive<Real>::backward_row(const Sequence& s, int64_t head, int64_t i) {
  const Row<Real> row = compute_row(s, head, i);
  const RowGradient<Real> g = row_gradient(s, head, i, row);
  const double d_logsumexp_size = std::abs(static_cast<double>(g.d_logsumexp));
  const WeightsOf kind = options_.weights_of;
  if (!sinks_.empty()) {
    d_sinks_[head] += row.sink_weight * (g.d_logsumexp - g.delta);
    gradient_spread_.sinks += std::pow(static_cast<double>(row.sink_weight) * (d_logsumexp_size + g.size), 2);
  }
  double query_squares = 0;
  for (int64_t j = 0; j < s.key_count; ++j) {
    const Real returned = d_returned(s, head, i, j);
    Real d_score = 0;
    double size = std::abs(static_cast<double>(returned));
    if (row.visible[j]) {
      // dS = P (dP - D + d_logsumexp)
      d_score = row.weight[j] * (g.d_weight[j] - g.delta + g.d_logsumexp);
      if (kind == WeightsOf::masked) d_score += returned;
      size += static_cast<double>(row.weight[j]) * (2 * g.size + d_logsumexp_size);
      if (options_.bias.defined()) {
        d_bias_.at(s.batch, head, s.query_begin + i, s.key_begin + j) += d_score;
        bias_squares_.at(s.batch, head, s.query_begin + i, s.key_begin + j) += size * size;
      }
      add_to_value(s, head, i, j, row.weight[j]);
    }
    if (kind == WeightsOf::softcapped) d_score += returned;
    if (options_.softcap && d_score != 0) {
      const Real tanh = row.capped[j] / static_cast<Real>(*options_.softcap);
      d_score *= 1 - tanh * tanh;
    }
    if (kind == WeightsOf::scores) d_score += returned;
    if (!row.visible[j] && d_score == 0) continue;
    query_squares += add_to_query_and_key(s, head, i, j, {d_score, size});
  }
  gradient_spread_.query = std::max(gradient_spread_.query, std::sqrt(query_squares));
}

double largest_root(const std::vector<double>& squares) {
  double largest = 0;
  for (double square : squares) largest = std::max(largest, square);
  return std::sqrt(largest);
}

template <typename Real>
GradientValues Naive<Real>::backward(GradientSpread* spread) {
  if (rounded_) forward(nullptr);
  d_query_ = Array4<Real>(problem_.query, false);
  d_key_ = Array4<Real>(problem_.key, false);
  d_value_ = Array4<Real>(problem_.value, false);
  key_squares_ = value_squares_ = Array4<double>(problem_.key.select(3, 0), false);
  if (options_.bias.defined()) {
    d_bias_ = Array4<Real>(options_.bias, false);
    bias_squares_ = Array4<double>(options_.bias, false);
  }
  d_sinks_.assign(sinks_.size(), Real(0));
  for (const Sequence& s : sequences_of(problem_)) {
    for (int64_t h = 0; h < heads_; ++h) {
      for (int64_t i = 0; i < s.query_count; ++i) backward_row(s, h, i);
    }
  }
  if (spread != nullptr) {
    *spread = {gradient_spread_.query, largest_root(key_squares_.values), largest_root(value_squares_.values),
               largest_root(bias_squares_.values), std::sqrt(gradient_spread_.sinks)};
  }
  const DType bias_dtype = options_.bias.defined() ? options_.bias.dtype() : storage_;
  const DType sinks_dtype = options_.sinks.defined() ? options_.sinks.dtype() : storage_;
  return {stored(d_query_.values, storage_), stored(d_key_.values, storage_), stored(d_value_.values, storage_),
          stored(d_bias_.values, bias_dtype), stored(d_sinks_, sinks_dtype)};
}

}  // namespace

ForwardValues reference_forward(const AttentionBackward& problem, ForwardSpread* spread) {
  if (problem.query.dtype() == DType::float64) return Naive<long double>(problem, false).forward(spread);
  return Naive<double>(problem, false).forward(spread);
}

GradientValues reference_backward(const AttentionBackward& problem, GradientSpread* spread) {
  if (problem.query.dtype() == DType::float64) return Naive<long double>(problem, false).backward(spread);
  return Naive<double>(problem, false).backward(spread);
}

ForwardValues naive_forward(const AttentionBackward& problem) {
  if (problem.query.dtype() == DType::float64) return Naive<double>(problem, false).forward(nullptr);
  return Naive<float>(problem, is_16_bit(problem.query.dtype())).forward(nullptr);
}

GradientValues naive_backward(const AttentionBackward& problem) {
  if (problem.query.dtype() == DType::float64) return Naive<double>(problem, false).backward(nullptr);
  return Naive<float>(problem, is_16_bit(problem.query.dtype())).backward(nullptr);
}

}  // namespace headway_test
