// Records with weights made up by rule, for tests of drawings: believable, the same everywhere, of any size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headway/attention_view.h"

namespace headway_test {

struct RecordOptions {
  std::vector<std::string> source;  // tokens
  std::vector<std::string> target;
  std::int64_t layers = 4;
  std::int64_t heads = 8;
  std::uint64_t seed = 1;
};

// Encoder, decoder and cross-attention whose heads differ: neighbours, words alike, the end, diffuse ones.
headway::AttentionRecord make_record(const RecordOptions& options);

// "The animal didn't cross the street because it was too tired." and its translation; in the encoder's last layer a
// head of "it" looks at "animal".
headway::AttentionRecord animal_record();
// Tokens that a page or a terminal could trip over: markup, quotes, escapes, emoji, right-to-left and bytes.
headway::AttentionRecord hostile_record();
// `count` tokens on both sides, 6 layers of 8 heads.
headway::AttentionRecord large_record(std::int64_t count);

}  // namespace headway_test
