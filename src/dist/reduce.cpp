// Sums and extremes of what the ranks have.
#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "core/device_memory.h"
#include "core/dispatch.h"
#include "core/tensor_impl.h"
#include "dist/group.h"
#include "headway/autograd.h"

namespace headway::inline v0::internal {
namespace {

template <typename T>
T combined(T a, T b, Reduce how) {
  // A NaN stays: comparisons with it are false.
  if (how == Reduce::max) return b > a || b != b ? b : a;
  if (how == Reduce::min) return b < a || b != b ? b : a;
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else {
    return static_cast<T>(a + b);
  }
}

// On the host.
void reduce_elements(const Tensor& sum, const Tensor& more, Reduce how) {
  dispatch_all(sum.dtype(), [&]<typename T>() {
    T* a = sum.data<T>();
    const T* b = more.data<T>();
    const std::int64_t count = sum.element_count();
    for (std::int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>) {
        a[i] = T(combined(static_cast<float>(a[i]), static_cast<float>(b[i]), how));
      } else {
        a[i] = combined(a[i], b[i], how);
      }
    }
  });
}

}  // namespace

void reduce_into(const Tensor& sum, const Tensor& more, Reduce how) {
  if (sum.element_count() == 0) return;
  if (how == Reduce::sum && is_floating(sum.dtype())) {
    memory_of(sum.device()).accumulate(sum.dtype(), sum.element_count(), sum.raw_data(), more.raw_data());
  } else if (sum.device().is_cpu()) {
    reduce_elements(sum, more, how);
  } else {
    const Tensor on_host = sum.to(Device::cpu());
    reduce_elements(on_host, more.to(Device::cpu()), how);
    sum.detach().copy_from(on_host);
  }
}

void reduce_terms(const std::vector<Tensor>& terms, Reduce how, const Tensor& result) {
  const NoGradGuard guard;
  const bool is_short = is_floating(result.dtype()) && item_size(result.dtype()) == 2;
  const DType wide = is_short && how == Reduce::sum ? DType::float32 : result.dtype();
  Tensor sum = terms.front().to(wide).contiguous();
  if (sum.raw_data() == terms.front().raw_data()) sum = sum.clone();
  for (std::size_t rank = 1; rank < terms.size(); ++rank) reduce_into(sum, terms[rank].to(wide).contiguous(), how);
  result.detach().copy_from(sum);
}

}  // namespace headway::inline v0::internal
