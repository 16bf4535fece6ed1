// Records with weights made up by rule, for tests of drawings.
#include "support/attention_record.h"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace headway_test {
namespace {

using headway::AttentionPart;
using headway::AttentionRecord;
using headway::Tensor;

// A number from 0 to 1 that depends on its arguments alone (splitmix64).
double noise(std::uint64_t seed, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x =
      seed * 0x9E3779B97F4A7C15ULL + a * 0xBF58476D1CE4E5B9ULL + b * 0x94D049BB133111EBULL + c * 0xD6E8FEB86659FD93ULL;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
  return static_cast<double>((x ^ (x >> 31U)) >> 11U) / 9007199254740992.0;
}

struct Head {
  std::uint64_t seed;
  std::int64_t layer, head;
  std::int64_t queries, keys;
  bool causal;
};

// A score whose softmax is the weight: heads take turns in what they like.
double score(const Head& h, std::int64_t query, std::int64_t key) {
  const double place = static_cast<double>(query) * static_cast<double>(h.keys) / static_cast<double>(h.queries);
  const double distance = static_cast<double>(key) - place;
  const auto q = static_cast<std::uint64_t>(query), k = static_cast<std::uint64_t>(key);
  const auto id = static_cast<std::uint64_t>(h.layer * 64 + h.head);
  const double rough = 1.6 * noise(h.seed, id, q, k);
  switch ((h.head + h.layer) % 8) {
    case 0:
      return rough - std::abs(distance + 1.0) * 1.3;  // the word before
    case 1:
      return rough - std::abs(distance - 1.0) * 1.2;  // the word after
    case 2:
      return rough - std::abs(distance) * 0.9;  // itself
    case 3:
      return rough + (key == h.keys - 1 ? 3.2 : 0.0);  // the end
    case 4:
      return rough + 5.0 * (noise(h.seed, id, q, k + 977) > 0.9 ? 1.0 : 0.0);  // one word somewhere
    case 5:
      return rough - std::abs(distance) * 0.25;  // around
    case 6:
      return rough + (key == 0 ? 2.5 : 0.0) - 0.1 * std::abs(distance);  // the beginning
    default:
      return rough * 0.8;  // everywhere
  }
}

void fill_head(float* weights, const Head& h) {
  for (std::int64_t q = 0; q < h.queries; ++q) {
    float* row = weights + q * h.keys;
    double sum = 0.0;
    for (std::int64_t k = 0; k < h.keys; ++k) {
      const double value = h.causal && k > q ? 0.0 : std::exp(score(h, q, k));
      row[k] = static_cast<float>(value);
      sum += value;
    }
    for (std::int64_t k = 0; k < h.keys; ++k) row[k] = static_cast<float>(row[k] / sum);
  }
}

AttentionPart make_part(const std::string& name, const std::vector<std::string>& queries,
                        const std::vector<std::string>& keys, const RecordOptions& options) {
  AttentionPart part{name, queries, keys, {}};
  const auto rows = static_cast<std::int64_t>(queries.size()), columns = static_cast<std::int64_t>(keys.size());
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    Tensor weights = Tensor::empty({options.heads, rows, columns});
    for (std::int64_t head = 0; head < options.heads; ++head) {
      fill_head(weights.data<float>() + head * rows * columns,
                {options.seed + name.size(), layer, head, rows, columns, name == "decoder"});
    }
    part.layers.push_back(weights);
  }
  return part;
}

std::string joined(const std::vector<std::string>& tokens) {
  constexpr std::string_view kWordMark = "▁";
  std::string text;
  for (const std::string& token : tokens) {
    if (token.starts_with("<") || token.starts_with(">>")) continue;
    const bool starts_word = token.starts_with(kWordMark);
    if (starts_word && !text.empty()) text += ' ';
    text += starts_word ? token.substr(kWordMark.size()) : token;
  }
  return text;
}

}  // namespace

AttentionRecord make_record(const RecordOptions& options) {
  std::vector<std::string> read = {"<pad>"};
  read.insert(read.end(), options.target.begin(), options.target.end() - 1);
  return {joined(options.source),
          joined(options.target),
          "deu",
          {make_part("encoder", options.source, options.source, options),
           make_part("decoder", options.target, read, options),
           make_part("cross", options.target, options.source, options)}};
}

AttentionRecord animal_record() {
  AttentionRecord record = make_record({.source = {">>deu<<", "▁The", "▁animal", "▁didn", "'", "t", "▁cross", "▁the",
                                                   "▁street", "▁because", "▁it", "▁was", "▁too", "▁tired", ".", "</s>"},
                                        .target = {"▁Das", "▁Tier", "▁über", "quer", "te", "▁die", "▁Straße", "▁nicht",
                                                   ",", "▁weil", "▁es", "▁zu", "▁müde", "▁war", ".", "</s>"}});
  // Head 5 of the last layer resolves "it" (token 10): the animal (2) above the street (8).
  const std::int64_t keys = static_cast<std::int64_t>(record.parts[0].keys.size());
  float* row = record.parts[0].layers.back().data<float>() + (4 * keys + 10) * keys;
  std::fill(row, row + keys, 0.01F);
  row[2] = 0.62F;
  row[8] = 0.18F;
  row[10] = 1.0F - 0.62F - 0.18F - 0.01F * static_cast<float>(keys - 3);
  return record;
}

AttentionRecord hostile_record() {
  return make_record({.source = {"▁</script>",
                                 "▁<img",
                                 "▁src=x",
                                 "▁onerror=alert(1)>",
                                 "▁\"quoted\"",
                                 "▁'single'",
                                 "▁&amp;",
                                 "▁😀",
                                 "▁👩‍👩‍👧",
                                 "▁שלום",
                                 "▁مرحبا",
                                 "▁漢字",
                                 "▁<!--",
                                 "-->",
                                 "▁\x1b[31mred",
                                 "▁\xE2\x80\xAEturned",
                                 "▁\xff",
                                 "<0xE2>",
                                 "<unk>",
                                 "▁",
                                 "▁averyveryveryveryverylongwordindeedthatneverseemstoend",
                                 "</s>"},
                      .target = {"▁<!--record-->", "▁</title>", "▁{{x}}", "▁$&", "▁\\u003c", "▁line\nbreak", "</s>"},
                      .layers = 2,
                      .heads = 4,
                      .seed = 7});
}

AttentionRecord large_record(std::int64_t count) {
  std::vector<std::string> source, target;
  for (std::int64_t i = 0; i < count - 1; ++i) {
    source.push_back("▁word" + std::to_string(i));
    target.push_back((i % 3 == 2 ? "" : "▁") + std::string("Wort") + std::to_string(i));
  }
  source.push_back("</s>");
  target.push_back("</s>");
  return make_record({.source = source, .target = target, .layers = 6, .heads = 8, .seed = 3});
}

}  // namespace headway_test
