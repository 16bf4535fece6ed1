#include "tasks/text_stream.h"

#include <algorithm>
#include <utility>

namespace headway::inline v0::internal {

TextStream::TextStream(const TextTokenizer& tokenizer, const std::vector<std::int64_t>& before,
                       std::vector<std::string> stops, OnText on_text)
    : decoder_(tokenizer), stops_(std::move(stops)), on_text_(std::move(on_text)) {
  constexpr std::size_t kBefore = 8;
  for (std::size_t i = before.size() - std::min(before.size(), kBefore); i < before.size(); ++i)
    decoder_.add(before[i]);
  for (const std::string& stop : stops_) longest_stop_ = std::max(longest_stop_, stop.size());
}

bool TextStream::add(std::int64_t token) {
  if (ended_) return true;
  const std::size_t from = text_.size();
  text_ += decoder_.add(token);
  if (cut(from)) return true;
  pass_on(text_.size() - kept_back());
  return false;
}

const std::string& TextStream::finish() {
  if (!ended_) {
    const std::size_t from = text_.size();
    text_ += decoder_.finish();
    cut(from);
  }
  pass_on(text_.size());
  return text_;
}

bool TextStream::cut(std::size_t from) {
  if (longest_stop_ == 0) return false;
  const std::size_t begin = from - std::min(from, longest_stop_ - 1);
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, text_.find(stop, begin));
  if (first == std::string::npos) return false;
  text_.resize(first);
  ended_ = true;
  pass_on(first);
  return true;
}

std::size_t TextStream::kept_back() const {
  std::size_t most = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t count = std::min(stop.size() - 1, text_.size() - passed_on_); count > most; --count) {
      if (std::string_view(text_).substr(text_.size() - count) == std::string_view(stop).substr(0, count)) most = count;
    }
  }
  return most;
}

void TextStream::pass_on(std::size_t end) {
  if (end <= passed_on_) return;
  if (on_text_) on_text_(std::string_view(text_).substr(passed_on_, end - passed_on_));
  passed_on_ = end;
}

}  // namespace headway::inline v0::internal
