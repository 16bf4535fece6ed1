#include "base/check.h"
#include "dist/sequence_guard.h"
#include "headway/layers.h"
#include "headway/ops.h"
#include "nn/device_copies.h"
#include "nn/initial_values.h"

namespace headway::inline v0 {
namespace {

// Rows offset .. offset + length of a table, for x [batch, length, width] or [length, width]; where sequences are cut
// over ranks, those of this rank's tokens.
Tensor rows_for(const char* name, const Tensor& table, const Tensor& x, std::int64_t offset) {
  internal::check(x.rank() >= 2 && x.size(-1) == table.size(1), name, ": x is ", x, ", expected [batch, length, ",
                  table.size(1), "]");
  const SequenceParallelGuard* guard = SequenceParallelGuard::current();
  const std::int64_t length = guard ? internal::whole_length(name, *guard, x.size(-2)) : x.size(-2);
  internal::check(offset >= 0 && offset <= table.size(0) && length <= table.size(0) - offset, name, ": positions ",
                  offset, " to ", offset + length, " are asked for, and max_length is ", table.size(0));
  const Tensor rows = table.slice(0, offset, offset + length);
  return guard ? embedding(rows, guard->shares(length).positions(guard->ranks().rank())) : rows;
}

void check_options(const char* name, const PositionsOptions& options) {
  internal::check(options.max_length > 0 && options.width > 0, name, ": max_length is ", options.max_length,
                  " and width is ", options.width, ", expected both above 0");
}

}  // namespace

SinusoidalPositions::SinusoidalPositions(const PositionsOptions& options)
    : options_(options), dropout_(options.dropout) {
  check_options("SinusoidalPositions", options);
  table_ = std::make_shared<internal::DeviceCopies>(
      sinusoidal_positions(options.max_length, options.width, options.layout, options.dtype));
  add_module("dropout", dropout_);
}

Tensor SinusoidalPositions::forward(const Tensor& x, std::int64_t offset) const {
  const Tensor table = table_->on(x.device());
  return dropout_.forward(add(x, rows_for("SinusoidalPositions", table, x, offset).to(x.dtype())));
}

LearnedPositions::LearnedPositions(const PositionsOptions& options) : options_(options), dropout_(options.dropout) {
  check_options("LearnedPositions", options);
  weight_ = add_parameter("weight", internal::normal({options.max_length, options.width}, options.dtype));
  add_module("dropout", dropout_);
}

Tensor LearnedPositions::forward(const Tensor& x, std::int64_t offset) const {
  return dropout_.forward(add(x, rows_for("LearnedPositions", weight_.get(), x, offset)));
}

}  // namespace headway::inline v0
