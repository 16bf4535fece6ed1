// Growing a vector in an inner loop.
#pragma once

#include <vector>

namespace headway::inline v0::internal {

// Appends a copy. push_back() of a temporary is emplace_back(), which with _GLIBCXX_ASSERTIONS looks at the element it
// returns and is not inlined any more: some percent of the time of a tokenizer.
template <typename T>
void push_copy(std::vector<T>& values, const typename std::vector<T>::value_type& value) {
  values.push_back(value);
}

}  // namespace headway::inline v0::internal
