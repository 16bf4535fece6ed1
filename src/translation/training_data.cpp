// The data of a training run.
#include "translation/training_data.h"

#include <algorithm>
#include <future>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "base/check.h"
#include "base/files.h"
#include "headway/threads.h"
#include "training/training_task.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

// Cleaned sentences have neither tabs nor line ends, so different pairs give different texts.
std::string digest_of(const std::vector<TextPair>& pairs) {
  std::string text;
  for (const TextPair& pair : pairs) text.append(pair.source).append(1, '\t').append(pair.target).append(1, '\n');
  return hexadecimal_digest(text);
}

// Each distinct sentence once, in the order of first occurrence.
std::vector<std::string> distinct_sentences(const std::vector<TextPair>& pairs) {
  std::unordered_set<std::string_view> seen;
  std::vector<std::string> sentences;
  for (const TextPair& pair : pairs) {
    for (const std::string* text : {&pair.source, &pair.target}) {
      if (seen.insert(*text).second) sentences.push_back(*text);
    }
  }
  return sentences;
}

const std::string& side(const TextPair& pair, bool second) { return second ? pair.target : pair.source; }

// The examples of some of the pairs.
EncodedPairs encode_range(const TranslationTokenizer& tokenizer, const std::vector<Direction>& directions,
                          std::span<const TextPair> pairs, std::int64_t max_length) {
  EncodedPairs encoded;
  for (const TextPair& pair : pairs) {
    for (const Direction& direction : directions) {
      const std::vector<std::int64_t> source = source_ids(tokenizer, direction, pair);
      const std::vector<std::int64_t> target = target_ids(tokenizer, direction, pair);
      if (std::max(std::ssize(source), std::ssize(target)) > max_length) {
        ++encoded.left_out;
      } else {
        encoded.examples.add(source, target);
      }
    }
  }
  return encoded;
}

}  // namespace

TrainingData read_training_data(const TranslationTrainingConfig& config) {
  check(!config.data.empty(), "data is empty, expected a file of sentence pairs");
  std::vector<TextPair> pairs =
      config.data_target.empty() ? read_pairs(config.data) : read_pairs(config.data, config.data_target);
  TrainingData data;
  data.cleaning = clean_pairs(pairs, {.max_characters = config.max_characters, .max_ratio = config.max_ratio});
  if (config.max_pairs > 0 && config.max_pairs < std::ssize(pairs)) {
    pairs.resize(static_cast<std::size_t>(config.max_pairs));
  }
  data.digest = digest_of(pairs);
  data.parts = split_pairs(pairs);
  check(!data.parts.training.empty(), config.data.string(), ": has ", pairs.size(),
        " pairs after cleaning and none for training");
  return data;
}

TranslationTokenizer prepare_tokenizer(const TranslationTrainingConfig& config, const std::vector<TextPair>& pairs,
                                       const fs::path& directory, bool reuse) {
  std::error_code ignored;
  if (reuse && fs::is_directory(directory, ignored)) return TranslationTokenizer::load(directory);
  std::optional<TranslationTokenizer> tokenizer;
  replace_directory(directory, [&](const fs::path& unfinished) {
    const PieceTrainingOptions options{.kind = config.pieces, .vocab_size = config.vocab_size};
    const SentencePieces joint = SentencePieces::train(distinct_sentences(pairs), unfinished / "source.spm", options);
    std::vector<std::string> codes;
    if (config.both_directions) codes = {config.target_language, config.source_language};
    tokenizer.emplace(joint, codes);
    tokenizer->save(unfinished);
  });
  return *tokenizer;
}

std::vector<Direction> directions_of(const TranslationTrainingConfig& config) {
  const std::string& source = config.source_language;
  const std::string& target = config.target_language;
  if (!config.both_directions) return {{.reverse = false, .from = source, .to = target, .tag = ""}};
  return {{.reverse = false, .from = source, .to = target, .tag = target},
          {.reverse = true, .from = target, .to = source, .tag = source}};
}

std::vector<std::int64_t> source_ids(const TranslationTokenizer& tokenizer, const Direction& direction,
                                     const TextPair& pair) {
  return tokenizer.encode_source(side(pair, direction.reverse), direction.tag);
}

std::vector<std::int64_t> target_ids(const TranslationTokenizer& tokenizer, const Direction& direction,
                                     const TextPair& pair) {
  return tokenizer.encode_target(side(pair, !direction.reverse));
}

EncodedPairs encode_pairs(const TranslationTokenizer& tokenizer, const std::vector<Direction>& directions,
                          const std::vector<TextPair>& pairs, std::int64_t max_length) {
  // Each thread encodes a contiguous range. Joined in order, the result is the same for any number of threads.
  const auto threads = static_cast<std::size_t>(num_threads());
  const std::size_t each = (pairs.size() + threads - 1) / threads;
  std::vector<std::future<EncodedPairs>> parts;
  for (std::size_t first = 0; first < pairs.size(); first += each) {
    const auto range = std::span(pairs).subspan(first, std::min(each, pairs.size() - first));
    // Where the system starts no more threads, get() does the work.
    parts.push_back(
        std::async(std::launch::async | std::launch::deferred, [&tokenizer, &directions, range, max_length] {
          return encode_range(tokenizer, directions, range, max_length);
        }));
  }
  EncodedPairs all;
  for (std::future<EncodedPairs>& part : parts) {
    EncodedPairs encoded = part.get();
    all.examples.append_all(encoded.examples);
    all.left_out += encoded.left_out;
  }
  return all;
}

}  // namespace headway::inline v0::internal
