// Labelled spans as B-, I- and O tags of tokens and back, and the scores of spans and of answers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headway/text_tokenizer.h"
#include "text/example_files.h"

namespace headway::inline v0::internal {

inline constexpr std::int64_t kNoLabel = -100;  // of tokens that are not predicted

// "O", then "B-x", "I-x" for every label x.
std::vector<std::string> tag_names(const std::vector<std::string>& labels);

// The tag of every token: B- for a span's first, I- for the others that overlap it; kNoLabel for special tokens. Where
// spans overlap, the first of them counts.
std::vector<std::int64_t> tags_of_spans(const TokenizedText& text, const std::vector<TextSpan>& spans,
                                        const std::vector<std::string>& labels);
// The spans of tags, one per token; a span begins at B-x, and at I-x where no x is before it.
std::vector<TextSpan> spans_of_tags(const TokenizedText& text, const std::vector<std::int64_t>& tags,
                                    const std::vector<std::string>& labels);

// Counts of whole spans.
struct SpanCounts {
  std::int64_t right = 0;
  std::int64_t predicted = 0;
  std::int64_t expected = 0;

  void add(const std::vector<TextSpan>& ours, const std::vector<TextSpan>& theirs);
  double precision() const;  // 0 .. 1
  double recall() const;
  double f1() const;
};

// SQuAD's scores of an answer: lower case without punctuation and articles.
double answer_f1(std::string_view answer, std::string_view expected);
bool answer_exact(std::string_view answer, std::string_view expected);

}  // namespace headway::inline v0::internal
