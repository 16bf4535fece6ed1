#include "captions/emoji.h"

#include <headway/headway.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <set>

namespace captions {
namespace {

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> pieces;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    pieces.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return pieces;
    begin = end + separator.size();
  }
}

// FNV-1a of 64 bits, mixed once more so that its remainders are even.
std::uint64_t name_hash(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char byte : name) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3U;
  return mix(hash);
}

}  // namespace

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

std::vector<std::string> values_of(std::string_view caption) {
  static const std::set<std::string> genders = {"man", "woman", "men", "women", "person", "people"};
  const std::size_t colon = caption.find(": ");
  std::string gender, activity;
  for (const std::string& word : split(caption.substr(0, colon), " ")) {
    std::string& words = genders.contains(word) ? gender : activity;
    if (!words.empty()) words += ' ';
    words += word;
  }
  std::vector<std::string> values;
  if (!gender.empty()) values.push_back("gender " + gender);
  if (!activity.empty()) values.push_back("activity " + activity);
  if (colon == std::string_view::npos) return values;
  for (const std::string& value : split(caption.substr(colon + 2), ", ")) {
    if (!value.empty()) values.push_back(value);
  }
  return values;
}

void split_emoji(std::vector<Emoji>& emoji) {
  std::set<std::string> seen;  // values in the part for training
  std::vector<Emoji*> candidates;
  for (Emoji& item : emoji) {
    const std::vector<std::string> values = item.person ? values_of(item.caption) : std::vector<std::string>();
    const std::uint64_t hash = name_hash(item.picture.filename().string());
    item.part = Part::train;
    if (values.size() >= 2 && hash % 7 == 5) {
      candidates.push_back(&item);
      continue;
    }
    if (values.size() < 2 && hash % 10 == 0) item.part = Part::kind;
    if (item.part == Part::train) seen.insert(values.begin(), values.end());
  }
  for (Emoji* const item : candidates) {
    const std::vector<std::string> values = values_of(item->caption);
    const bool known = std::ranges::all_of(values, [&](const std::string& value) { return seen.contains(value); });
    if (known) item->part = Part::combination;
    seen.insert(values.begin(), values.end());
  }
}

std::vector<Emoji> read_emoji(const std::filesystem::path& data) {
  const std::filesystem::path file = data / "captions.tsv";
  std::ifstream input(file);
  std::string line;
  if (!std::getline(input, line) || !line.starts_with("file\tcaption\tkind")) {
    throw headway::Error(file.string() +
                         ": expected a table that begins with file, caption and kind; DATA is the "
                         "folder of emoji-captions.zip");
  }
  std::vector<Emoji> emoji;
  while (std::getline(input, line)) {
    const std::vector<std::string> fields = split(line, "\t");
    if (fields.size() < 3) throw headway::Error(file.string() + ": a line has fewer than 3 fields: " + line);
    emoji.push_back({.picture = data / "72x72" / fields[0], .caption = fields[1], .person = fields[2] == "person"});
  }
  split_emoji(emoji);
  return emoji;
}

std::vector<Emoji> part_of(const std::vector<Emoji>& emoji, Part part) {
  std::vector<Emoji> items;
  std::ranges::copy_if(emoji, std::back_inserter(items), [part](const Emoji& item) { return item.part == part; });
  return items;
}

std::int64_t ItemOrder::at(std::int64_t place) {
  const std::int64_t epoch = place / count_;
  if (epoch != epoch_) {
    epoch_ = epoch;
    std::vector<std::uint64_t> keys;
    const std::uint64_t base = mix(seed_ * 1000003 + static_cast<std::uint64_t>(epoch));
    for (std::int64_t i = 0; i < count_; ++i) keys.push_back(mix(base ^ mix(static_cast<std::uint64_t>(i))));
    order_.resize(keys.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::ranges::stable_sort(order_, {}, [&](std::int64_t i) { return keys[static_cast<std::size_t>(i)]; });
  }
  return order_[static_cast<std::size_t>(place % count_)];
}

double draw(std::uint64_t seed, std::int64_t place, std::uint64_t index) {
  const std::uint64_t bits = mix(seed) ^ mix(static_cast<std::uint64_t>(place) * 16 + index);
  return static_cast<double>(mix(bits) >> 11) * 0x1p-53;
}

}  // namespace captions
