// The emoji with their captions: how they are split, and which of them are in which batch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace captions {

enum class Part {
  train,
  combination,  // persons: every value of theirs occurs in `train`, the combination does not
  kind,         // a tenth of the pictures that combine nothing
};

struct Emoji {
  std::filesystem::path picture;
  std::string caption;
  bool person = false;
  Part part = Part::train;
};

// DATA/captions.tsv (file, caption, kind, ...), split by the rule of split_emoji().
std::vector<Emoji> read_emoji(const std::filesystem::path& data);

// Sets the parts. A caption of a person, "woman cook: medium skin tone", combines values: the gender, the activity, and
// what stands behind the colon, by commas. With two values or more it is a combination; a seventh of them, by the hash
// of the file's name, are held out, but for those with a value that no picture in `train` has. Of the rest a tenth is
// held out.
void split_emoji(std::vector<Emoji>& emoji);
// {"gender woman", "activity cook", "medium skin tone"}
std::vector<std::string> values_of(std::string_view caption);

std::vector<Emoji> part_of(const std::vector<Emoji>& emoji, Part part);

// SplitMix64's output function.
std::uint64_t mix(std::uint64_t x);

// Which item comes at a place of the run: each epoch has an order of its own.
class ItemOrder {
 public:
  ItemOrder(std::uint64_t seed, std::int64_t count) : seed_(seed), count_(count) {}
  std::int64_t at(std::int64_t place);

 private:
  std::uint64_t seed_;
  std::int64_t count_;
  std::int64_t epoch_ = -1;
  std::vector<std::int64_t> order_;
};

// Number `index` in [0, 1) for the example at a place of the run.
double draw(std::uint64_t seed, std::int64_t place, std::uint64_t index);

}  // namespace captions
