// Tensors as text for people: the values as NumPy shows them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

#include "core/convert.h"
#include "core/dispatch.h"
#include "headway/tensor.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr std::int64_t kShownWhole = 1000;  // elements; of greater tensors the ends of dimensions are shown
constexpr std::int64_t kEnds = 3;           // elements at each end of a long dimension
constexpr std::size_t kLineWidth = 100;     // characters

template <typename T>
std::string element_text(T value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    const double number = convert<double>(value);
    char text[32];
    std::snprintf(text, sizeof(text), "%.6g", number);
    return std::isnan(number) ? "nan" : text;  // without its sign
  }
}

// The text of a tensor on the CPU.
class TensorText {
 public:
  explicit TensorText(const Tensor& tensor) : tensor_(tensor), shortened_(brackets(tensor.shape()) > kShownWhole) {
    collect(0, 0);
    for (const std::string& element : elements_) width_ = std::max(width_, element.size());
    append(0);
  }

  const std::string& text() const { return text_; }

 private:
  // The number of elements, or of empty brackets where there are none.
  static double brackets(const Shape& shape) {
    double count = 1;
    for (const std::int64_t size : shape) count *= static_cast<double>(std::max<std::int64_t>(size, 1));
    return count;
  }

  // Whether the middle of a dimension is left out.
  bool is_cut(int dim) const { return shortened_ && tensor_.shape()[dim] > 2 * kEnds; }

  // Calls visit(index) for the indices of a dimension that are shown.
  template <typename Visit>
  void for_shown(int dim, const Visit& visit) const {
    const std::int64_t size = tensor_.shape()[dim];
    for (std::int64_t i = 0; i < size; ++i) {
      if (is_cut(dim) && i == kEnds) i = size - kEnds;
      visit(i);
    }
  }

  // All shown elements in row-major order.
  void collect(int dim, std::int64_t offset) {
    if (dim < tensor_.rank()) {
      return for_shown(dim, [&](std::int64_t i) { collect(dim + 1, offset + i * tensor_.strides()[dim]); });
    }
    dispatch_all(tensor_.dtype(), [&]<typename T>() {
      if constexpr (std::is_same_v<T, bool>) {  // a user's bool may be any byte
        elements_.push_back(element_text(static_cast<const unsigned char*>(tensor_.raw_data())[offset] != 0));
      } else {
        elements_.push_back(element_text(tensor_.data<T>()[offset]));
      }
    });
  }

  void append(int dim) {
    const int rank = tensor_.rank();
    if (dim == rank) {
      const std::string& element = elements_[next_++];
      text_.append(rank == 0 ? 0 : width_ - element.size(), ' ').append(element);
      return;
    }
    const std::string indent(static_cast<std::size_t>(dim) + 1, ' ');
    const bool is_row = dim == rank - 1;
    // Between matrices there are empty lines, one more for every dimension outwards.
    const std::string end_of_line =
        is_row ? "\n" + indent : std::string(static_cast<std::size_t>(rank - 1 - dim), '\n') + indent;
    const std::int64_t per_line = static_cast<std::int64_t>(std::max<std::size_t>(1, kLineWidth / (width_ + 2)));
    std::int64_t shown = 0;
    text_ += '[';
    for_shown(dim, [&](std::int64_t i) {
      const auto separate = [&] {
        if (shown > 0) text_ += !is_row ? "," + end_of_line : shown % per_line == 0 ? "," + end_of_line : ", ";
        ++shown;
      };
      if (is_cut(dim) && i == tensor_.shape()[dim] - kEnds) {
        separate();
        text_ += "...";
      }
      separate();
      append(dim + 1);
    });
    text_ += ']';
  }

  const Tensor tensor_;
  const bool shortened_;
  std::vector<std::string> elements_;
  std::size_t next_ = 0;   // index into elements_ while the text is built
  std::size_t width_ = 0;  // of the longest element
  std::string text_;
};

}  // namespace
}  // namespace internal

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  if (!tensor.defined()) return stream << "undefined";
  stream << internal::TensorText(tensor.detach().to(Device::cpu())).text() << ' ' << tensor.describe();
  return tensor.device().is_cpu() ? stream : stream << " on " << tensor.device().name();
}

}  // namespace headway::inline v0
