// Splitting pairs into parts that share no sentence.
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "base/sha256.h"
#include "headway/text_pairs.h"

namespace headway::inline v0 {
namespace {

// Union-find: elements in sets that can be joined.
class DisjointSets {
 public:
  std::size_t add() {
    parents_.push_back(parents_.size());
    return parents_.size() - 1;
  }
  // The set's representative.
  std::size_t find(std::size_t element) {
    while (parents_[element] != element) {
      parents_[element] = parents_[parents_[element]];
      element = parents_[element];
    }
    return element;
  }
  void join(std::size_t a, std::size_t b) { parents_[find(a)] = find(b); }

 private:
  std::vector<std::size_t> parents_;
};

// The SHA-256 of a sentence as a big-endian number, modulo `modulus`.
std::int64_t remainder_of(std::string_view sentence, std::int64_t modulus) {
  std::int64_t remainder = 0;
  for (const char byte : internal::sha256(sentence)) {
    remainder = (remainder * 256 + static_cast<unsigned char>(byte)) % modulus;
  }
  return remainder;
}

}  // namespace

SplitPairs split_pairs(const std::vector<TextPair>& pairs, std::int64_t modulus) {
  constexpr std::int64_t kLargestModulus = std::int64_t{1} << 40;
  internal::check(modulus >= 2 && modulus <= kLargestModulus, "split_pairs: modulus is ", modulus, ", expected 2 to ",
                  kLargestModulus);
  DisjointSets sets;
  std::unordered_map<std::string_view, std::size_t> elements;  // of each sentence
  const auto element_of = [&](std::string_view sentence) {
    const auto [place, is_new] = elements.try_emplace(sentence, 0);
    if (is_new) place->second = sets.add();
    return place->second;
  };
  std::vector<std::size_t> sources;  // the element of each pair's source
  sources.reserve(pairs.size());
  for (const TextPair& pair : pairs) {
    sources.push_back(element_of(pair.source));
    sets.join(sources.back(), element_of(pair.target));
  }

  std::unordered_map<std::size_t, std::string_view> first_sources;  // of each component
  for (std::size_t n = 0; n < pairs.size(); ++n) {
    const std::string_view source = pairs[n].source;
    const auto [place, is_new] = first_sources.try_emplace(sets.find(sources[n]), source);
    if (!is_new && source < place->second) place->second = source;
  }
  std::unordered_map<std::size_t, std::int64_t> remainders;
  for (const auto& [component, sentence] : first_sources) remainders[component] = remainder_of(sentence, modulus);

  SplitPairs parts;
  parts.components = static_cast<std::int64_t>(first_sources.size());
  for (std::size_t n = 0; n < pairs.size(); ++n) {
    const std::int64_t remainder = remainders[sets.find(sources[n])];
    (remainder == 0 ? parts.test : remainder == 1 ? parts.validation : parts.training).push_back(pairs[n]);
  }
  return parts;
}

std::vector<TextPair> distinct_sources(const std::vector<TextPair>& pairs, bool reverse) {
  std::vector<TextPair> distinct;
  std::unordered_set<std::string_view> seen;
  for (const TextPair& pair : pairs) {
    const std::string& source = reverse ? pair.target : pair.source;
    if (seen.insert(source).second) distinct.push_back({source, reverse ? pair.source : pair.target});
  }
  return distinct;
}

}  // namespace headway::inline v0
