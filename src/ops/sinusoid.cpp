// sinusoidal_positions(): a constant table.
#include <cmath>

#include "base/check.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "headway/ops.h"

namespace headway::inline v0 {

Tensor sinusoidal_positions(std::int64_t length, std::int64_t dim, Sinusoid layout, DType dtype) {
  using internal::check;
  check(length >= 0, "sinusoidal_positions: length is ", length, ", expected at least 0");
  check(dim >= 0, "sinusoidal_positions: dim is ", dim, ", expected at least 0");
  check(is_floating(dtype), "sinusoidal_positions: dtype is ", dtype, ", expected a floating one");
  const bool is_whisper = layout == Sinusoid::whisper;
  check(!is_whisper || (dim >= 4 && dim % 2 == 0), "sinusoidal_positions: dim is ", dim,
        ", expected an even number from 4 on with Sinusoid::whisper");
  Tensor table = Tensor::empty({length, dim}, dtype);
  const std::int64_t pairs = dim / 2;
  const std::int64_t sines = (dim + 1) / 2;  // an odd dim has no cosine for its last angle
  internal::dispatch_floating(dtype, [&]<typename T>() {
    T* values = table.data<T>();
    for (std::int64_t i = 0; i < sines; ++i) {
      const double exponent = is_whisper ? -static_cast<double>(i) / static_cast<double>(pairs - 1)
                                         : -2.0 * static_cast<double>(i) / static_cast<double>(dim);
      const double frequency = std::pow(10000.0, exponent);
      const std::int64_t sine = layout == Sinusoid::interleaved ? 2 * i : i;
      const std::int64_t cosine = layout == Sinusoid::interleaved ? 2 * i + 1 : sines + i;
      for (std::int64_t position = 0; position < length; ++position) {
        const double angle = static_cast<double>(position) * frequency;
        values[position * dim + sine] = internal::convert<T>(std::sin(angle));
        if (cosine < dim) values[position * dim + cosine] = internal::convert<T>(std::cos(angle));
      }
    }
  });
  return table;
}

}  // namespace headway::inline v0
