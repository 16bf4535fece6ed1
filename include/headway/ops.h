// Operations on tensors. The differentiable ones take float32 and float64, and 16-bit floats with sums in float32;
// comparisons, where() and extremes take every dtype. The tensors of one call have one dtype and one device, and their
// shapes broadcast as in NumPy. Reshape, transpose, slice and the other views are members of Tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "headway/activation.h"
#include "headway/export.h"
#include "headway/tensor.h"

namespace headway {
inline namespace v0 {

// ---- products ----

// a b over the last two dimensions; leading ones broadcast. A vector on the left is a row, on the right a column.
HEADWAY_API Tensor matmul(const Tensor& a, const Tensor& b);

// activation(x W^T + bias): x [..., in], weight [out, in], bias [out] or undefined -> [..., out].
HEADWAY_API Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                          Activation activation = Activation::none);

// ---- elementwise ----

HEADWAY_API Tensor add(const Tensor& a, const Tensor& b);
HEADWAY_API Tensor sub(const Tensor& a, const Tensor& b);
HEADWAY_API Tensor mul(const Tensor& a, const Tensor& b);
HEADWAY_API Tensor div(const Tensor& a, const Tensor& b);
// The number is rounded to the tensor's dtype (to float32 for 16-bit floats).
HEADWAY_API Tensor add(const Tensor& x, double number);
HEADWAY_API Tensor sub(const Tensor& x, double number);
HEADWAY_API Tensor sub(double number, const Tensor& x);
HEADWAY_API Tensor div(const Tensor& x, double number);
HEADWAY_API Tensor div(double number, const Tensor& x);
// x * factor
HEADWAY_API Tensor scale(const Tensor& x, double factor);
HEADWAY_API Tensor neg(const Tensor& x);
// The greater or the smaller of two elements, NaN where one is NaN. Where they are equal, a gets the gradient.
HEADWAY_API Tensor maximum(const Tensor& a, const Tensor& b);
HEADWAY_API Tensor minimum(const Tensor& a, const Tensor& b);
HEADWAY_API Tensor exp(const Tensor& x);
HEADWAY_API Tensor log(const Tensor& x);
HEADWAY_API Tensor sqrt(const Tensor& x);
HEADWAY_API Tensor pow(const Tensor& x, double exponent);
HEADWAY_API Tensor activate(const Tensor& x, Activation activation);
HEADWAY_API Tensor relu(const Tensor& x);
enum class Gelu { erf, tanh };
HEADWAY_API Tensor gelu(const Tensor& x, Gelu form = Gelu::erf);
HEADWAY_API Tensor silu(const Tensor& x);
HEADWAY_API Tensor tanh(const Tensor& x);
HEADWAY_API Tensor sigmoid(const Tensor& x);

// Each element is zero with the given probability (in [0, 1), rounded to 1/65536), else multiplied by 1 / (1 - p). The
// same seed drops the same elements everywhere.
HEADWAY_API Tensor dropout(const Tensor& x, double probability, std::uint64_t seed);

// x + dropout(y) in one pass: a residual connection.
HEADWAY_API Tensor add_dropout(const Tensor& x, const Tensor& y, double probability, std::uint64_t seed);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator+(const Tensor& x, double number) { return add(x, number); }
inline Tensor operator+(double number, const Tensor& x) { return add(x, number); }
inline Tensor operator-(const Tensor& x, double number) { return sub(x, number); }
inline Tensor operator-(double number, const Tensor& x) { return sub(number, x); }
inline Tensor operator*(const Tensor& x, double factor) { return scale(x, factor); }
inline Tensor operator*(double factor, const Tensor& x) { return scale(x, factor); }
inline Tensor operator/(const Tensor& x, double number) { return div(x, number); }
inline Tensor operator/(double number, const Tensor& x) { return div(number, x); }

// ---- comparisons and choices ----

// Elementwise comparisons, to a boolean tensor: equal, not equal, less, less or equal, greater, greater or equal. NaN
// is unequal to everything. A number is rounded to a floating tensor's dtype; the elements of other tensors are
// compared with it as they are.
HEADWAY_API Tensor eq(const Tensor& a, const Tensor& b);
HEADWAY_API Tensor ne(const Tensor& a, const Tensor& b);
HEADWAY_API Tensor lt(const Tensor& a, const Tensor& b);
HEADWAY_API Tensor le(const Tensor& a, const Tensor& b);
HEADWAY_API Tensor gt(const Tensor& a, const Tensor& b);
HEADWAY_API Tensor ge(const Tensor& a, const Tensor& b);
HEADWAY_API Tensor eq(const Tensor& x, double number);
HEADWAY_API Tensor ne(const Tensor& x, double number);
HEADWAY_API Tensor lt(const Tensor& x, double number);
HEADWAY_API Tensor le(const Tensor& x, double number);
HEADWAY_API Tensor gt(const Tensor& x, double number);
HEADWAY_API Tensor ge(const Tensor& x, double number);

inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator==(const Tensor& x, double number) { return eq(x, number); }
inline Tensor operator!=(const Tensor& x, double number) { return ne(x, number); }
inline Tensor operator<(const Tensor& x, double number) { return lt(x, number); }
inline Tensor operator<=(const Tensor& x, double number) { return le(x, number); }
inline Tensor operator>(const Tensor& x, double number) { return gt(x, number); }
inline Tensor operator>=(const Tensor& x, double number) { return ge(x, number); }
inline Tensor operator==(double number, const Tensor& x) { return eq(x, number); }
inline Tensor operator!=(double number, const Tensor& x) { return ne(x, number); }
inline Tensor operator<(double number, const Tensor& x) { return gt(x, number); }
inline Tensor operator<=(double number, const Tensor& x) { return ge(x, number); }
inline Tensor operator>(double number, const Tensor& x) { return lt(x, number); }
inline Tensor operator>=(double number, const Tensor& x) { return le(x, number); }

// Of boolean tensors.
HEADWAY_API Tensor logical_not(const Tensor& x);
HEADWAY_API Tensor logical_and(const Tensor& a, const Tensor& b);
HEADWAY_API Tensor logical_or(const Tensor& a, const Tensor& b);
inline Tensor operator~(const Tensor& x) { return logical_not(x); }
inline Tensor operator&(const Tensor& a, const Tensor& b) { return logical_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return logical_or(a, b); }

// a where the boolean mask is true, b elsewhere; all three broadcast. The gradient goes to the tensor of the value.
HEADWAY_API Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);
HEADWAY_API Tensor where(const Tensor& mask, const Tensor& a, double b);
HEADWAY_API Tensor where(const Tensor& mask, double a, const Tensor& b);

// ---- sums and extremes ----

// Over all elements; the result has no dimensions.
HEADWAY_API Tensor sum(const Tensor& x);
HEADWAY_API Tensor mean(const Tensor& x);
// Over some dimensions, which are kept with size 1 where `keep_dims`.
HEADWAY_API Tensor sum(const Tensor& x, const std::vector<int>& dims, bool keep_dims = false);
HEADWAY_API Tensor mean(const Tensor& x, const std::vector<int>& dims, bool keep_dims = false);

// The greatest or smallest element of all, without dimensions, or along a dimension. The result is NaN where an element
// is NaN. The gradient goes to the first of equal elements.
HEADWAY_API Tensor max(const Tensor& x);
HEADWAY_API Tensor min(const Tensor& x);
HEADWAY_API Tensor max(const Tensor& x, int dim, bool keep_dims = false);
HEADWAY_API Tensor min(const Tensor& x, int dim, bool keep_dims = false);
// The index of that element, as int64: the first of equal ones; a NaN comes before any number. Without a dimension it
// is the index in row-major order.
HEADWAY_API Tensor argmax(const Tensor& x);
HEADWAY_API Tensor argmin(const Tensor& x);
HEADWAY_API Tensor argmax(const Tensor& x, int dim, bool keep_dims = false);
HEADWAY_API Tensor argmin(const Tensor& x, int dim, bool keep_dims = false);

// ---- along a dimension ----

HEADWAY_API Tensor softmax(const Tensor& x, int dim = -1);
HEADWAY_API Tensor log_softmax(const Tensor& x, int dim = -1);

// (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension; weight and bias [features] or
// undefined.
HEADWAY_API Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                              double epsilon = 1e-5);

struct AddNormOptions {
  double probability = 0;  // of dropout: in [0, 1), rounded to 1/65536
  std::uint64_t seed = 0;
  Tensor weight = {};  // [features] or undefined
  Tensor bias = {};    // likewise
  double epsilon = 1e-5;
};
struct AddNorm {
  Tensor normed;
  Tensor sum;
};
// sum = x + dropout(y), a residual connection, and normed = layer_norm(sum), in one pass. x and y have one shape.
HEADWAY_API AddNorm add_dropout_norm(const Tensor& x, const Tensor& y, const AddNormOptions& options = {});

// x / sqrt(mean(x^2) + epsilon) * weight over the last dimension. Without an epsilon: the machine epsilon of float64
// for float64, else of float32.
HEADWAY_API Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, std::optional<double> epsilon = {});

// Joins tensors along a dimension; all other sizes are equal.
HEADWAY_API Tensor concat(const std::vector<Tensor>& tensors, int dim = 0);

// Joins tensors of one shape along a new dimension.
HEADWAY_API Tensor stack(const std::vector<Tensor>& tensors, int dim = 0);

// Views of neighbouring parts whose sizes add up to the dimension's. Their gradients are written into one tensor.
HEADWAY_API std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim = 0);

// ---- tokens ----

// Rows of weight [count, features] by indices (int32 or int64, any shape) -> [..., features]. The row of the padding
// index gets no gradient.
HEADWAY_API Tensor embedding(const Tensor& weight, const Tensor& indices,
                             std::optional<std::int64_t> padding_index = {});

enum class Reduction {
  mean,  // over the targets that are not ignored
  sum,
  none,  // one loss per target
};
struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;  // targets of this value are ignored
  double label_smoothing = 0.0;      // in [0, 1]: this share of the probability is spread over all classes
  Reduction reduction = Reduction::mean;
};
// -log softmax(logits)[target]: logits [..., classes], targets int32 or int64 [...]. The loss is float64 for float64
// logits and float32 for all others, also for 16-bit logits, so that it keeps its precision.
HEADWAY_API Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

// ---- positions ----

struct RotaryOptions {
  double base = 10000.0;
  std::int64_t dims = 0;     // the first `dims` of head_dim are rotated; 0: all
  bool interleaved = false;  // pairs are neighbours (2i, 2i + 1), else halves (i, i + dims / 2)
  std::int64_t offset = 0;   // the position of the first row
  Tensor positions = {};  // int64 [length], or [batch, length] for x [batch, heads, length, head_dim]; excludes offset
  std::vector<double> frequencies = {};  // [dims / 2] radians per position; default: base^(-2i / dims)
  double factor = 1.0;                   // of the rotated features
};
// Rotates pairs of x [..., length, head_dim] by angles position * base^(-2i / dims).
HEADWAY_API Tensor rotary(const Tensor& x, const RotaryOptions& options = {});

// Where the sines and cosines of sinusoidal_positions go.
enum class Sinusoid {
  interleaved,  // sine, cosine, sine, cosine, ... as in "Attention Is All You Need"
  halves,       // all sines, then all cosines
  whisper,      // likewise, with angles position * 10000^(-i / (dim / 2 - 1)), of which the last is position / 10000
};
// The table [length, dim] of the paper: angles position * 10000^(-2i / dim).
HEADWAY_API Tensor sinusoidal_positions(std::int64_t length, std::int64_t dim, Sinusoid layout = Sinusoid::interleaved,
                                        DType dtype = DType::float32);

}  // namespace v0
}  // namespace headway
