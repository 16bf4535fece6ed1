#include "generate/step_product.h"

#include <algorithm>

#include "base/divide.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kPanelColumns = 32;  // whole vectors on every processor
constexpr std::int64_t kFewRows = 32;  // up to here reading the weight in order pays for putting the result in order

struct Finish {
  const float* bias = nullptr;   // (columns)
  const float* added = nullptr;  // (columns), or none
  bool relu = false;
};

// One row of one panel: to = finish(from).
void finish_row(const float* from, const Finish& finish, std::int64_t columns, float* to) {
  if (finish.added) {
    for (std::int64_t c = 0; c < columns; ++c) to[c] = finish.added[c] + (from[c] + finish.bias[c]);
  } else if (finish.relu) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const float value = from[c] + finish.bias[c];
      to[c] = value < 0.0F ? 0.0F : value;
    }
  } else {
    for (std::int64_t c = 0; c < columns; ++c) to[c] = from[c] + finish.bias[c];
  }
}

}  // namespace

StepProduct::StepProduct(const Tensor& weight, const Tensor& bias)
    : weight_(weight.detach().contiguous()), bias_(bias.detach().contiguous()) {
  if (!weight_.device().is_cpu()) return;
  const std::int64_t outputs = weight.size(0), inputs = weight.size(1);
  const std::int64_t panels = divide_up(outputs, kPanelColumns), whole = outputs / kPanelColumns;
  panels_ =
      whole == panels ? Tensor::empty({panels, inputs, kPanelColumns}) : Tensor::zeros({panels, inputs, kPanelColumns});
  panels_.slice(0, 0, whole)
      .copy_from(weight_.slice(0, 0, whole * kPanelColumns).view({whole, kPanelColumns, inputs}).transpose(1, 2));
  if (whole < panels) {
    const Tensor rest = weight_.slice(0, whole * kPanelColumns, outputs);  // [columns, in]
    panels_.select(0, whole).slice(1, 0, rest.size(0)).copy_from(rest.transpose(0, 1));
  }
}

Tensor StepProduct::operator()(const Tensor& x, Activation activation, const Tensor& added) const {
  if (panels_.defined() && x.size(0) <= kFewRows) return of_few_rows(x, activation, added);
  const Tensor result = linear(x, weight_, bias_, activation);
  return added.defined() ? add(added, result) : result;
}

Tensor StepProduct::of_few_rows(const Tensor& x, Activation activation, const Tensor& added) const {
  const std::int64_t rows = x.size(0), outputs = weight_.size(0);
  const Tensor product = matmul(x, panels_);  // (panels, rows, panel_columns)
  const Tensor result = Tensor::empty({rows, outputs});
  const float* from = product.data<float>();
  for (std::int64_t column = 0; column < outputs; column += kPanelColumns) {
    const std::int64_t columns = std::min(kPanelColumns, outputs - column);
    for (std::int64_t row = 0; row < rows; ++row, from += kPanelColumns) {
      const std::int64_t place = row * outputs + column;
      finish_row(from,
                 {.bias = bias_.data<float>() + column,
                  .added = added.defined() ? added.data<float>() + place : nullptr,
                  .relu = activation == Activation::relu},
                 columns, result.data<float>() + place);
    }
  }
  const bool is_done = activation == Activation::none || activation == Activation::relu;
  return is_done ? result : activate(result, activation);
}

}  // namespace headway::inline v0::internal
