// The tracks of gestures.zip: 16 points of a finger tip and what the hand did.
#pragma once

#include <headway/headway.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace gestures {

constexpr std::int64_t kPoints = 16;
constexpr std::int64_t kClasses = 4;
const std::array<std::string, kClasses> kNames = {"stop", "clockwise", "counter clockwise", "move"};

struct Row {
  std::array<float, 2 * kPoints> points = {};  // x, y of each, relative to the first
  std::int64_t label = -1;                     // -1: the row does not say
};
// Lines of "class, x, y, x, y, ...", or of the coordinates alone where `with_label` is false and a line has 32 numbers.
std::vector<Row> read_rows(const std::filesystem::path& file, bool with_label);

struct Split {
  std::vector<std::int64_t> training, test;  // numbers of rows
};
// The published one: scikit-learn's train_test_split(train_size=0.75, random_state=42).
Split random_split(std::int64_t rows);
// The harder one: each class's rows in their order are cut into blocks of 64, and every fourth block is the test.
// Rows within 16 rows of a test block, which share frames with it, are in neither part.
Split block_split(const std::vector<Row>& rows);

// [rows, 16, 2]
headway::Tensor point_tensor(const std::vector<Row>& rows);

}  // namespace gestures
