#include "headway/dtype.h"

#include "core/convert.h"
#include "core/dispatch.h"

namespace headway::inline v0 {

bfloat16::bfloat16(float value) : bits(internal::to_bfloat16(value).bits) {}
bfloat16::operator float() const { return internal::to_float(*this); }

float16::float16(float value) : bits(internal::to_float16(value).bits) {}
float16::operator float() const { return internal::to_float(*this); }

std::size_t item_size(DType dtype) {
  return internal::dispatch_all(dtype, []<typename T>() { return sizeof(T); });
}

std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float16:
      return "float16";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::boolean:
      return "bool";
    case DType::int8:
      return "int8";
  }
  internal::fail("there is no dtype numbered ", static_cast<int>(dtype));
}

bool is_floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::bfloat16 || dtype == DType::float16;
}

}  // namespace headway::inline v0
