// Ranges of texts on threads.
#include "training/tokenize_texts.h"

#include <algorithm>
#include <future>

#include "headway/threads.h"

namespace headway::inline v0::internal {

void for_each_text(std::size_t count, const std::function<void(std::size_t)>& body) {
  const auto threads = static_cast<std::size_t>(num_threads());
  const std::size_t each = std::max<std::size_t>((count + threads - 1) / threads, 1);
  std::vector<std::future<void>> ranges;
  for (std::size_t first = 0; first < count; first += each) {
    const std::size_t end = std::min(first + each, count);
    // Where the system starts no more threads, get() does the work.
    ranges.push_back(std::async(std::launch::async | std::launch::deferred, [&body, first, end] {
      for (std::size_t i = first; i < end; ++i) body(i);
    }));
  }
  for (std::future<void>& range : ranges) range.get();
}

}  // namespace headway::inline v0::internal
