#include "gestures/rows.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>

#include "support/files.h"

namespace gestures {
namespace {

using headway::Error;

constexpr double kLargest = 1e6;  // beyond it float32 has no room left for what the layers compute

Row parse_row(const std::string& line, bool with_label, const std::string& about) {
  const std::vector<double> numbers = example::numbers_of(line, about, kLargest);
  const std::size_t coordinates = 2 * kPoints;
  const bool labelled = with_label || numbers.size() == coordinates + 1;
  if (numbers.size() != coordinates + (labelled ? 1 : 0)) {
    throw Error(about + ": " + std::to_string(numbers.size()) + " numbers, expected " +
                (with_label ? "the class and " : "") + "x and y of 16 points");
  }
  Row row;
  if (labelled) {
    row.label = static_cast<std::int64_t>(numbers[0]);
    if (row.label < 0 || row.label >= kClasses) throw Error(about + ": the class is not 0 to 3");
  }
  std::transform(numbers.end() - static_cast<std::ptrdiff_t>(coordinates), numbers.end(), row.points.begin(),
                 [](double number) { return static_cast<float>(number); });
  return row;
}

// A number from 0 to `most`, as NumPy's older generator draws it: bits of the next word until they are small enough.
std::uint32_t drawn(std::mt19937& words, std::uint32_t most) {
  std::uint32_t mask = most;
  for (unsigned shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
  std::uint32_t value = most + 1;
  while (value > most) value = static_cast<std::uint32_t>(words()) & mask;
  return value;
}

}  // namespace

std::vector<Row> read_rows(const std::filesystem::path& path, bool with_label) {
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "point_history.csv" : path;
  std::ifstream stream(file);
  if (!stream) throw Error(file.string() + ": cannot be read");
  std::vector<Row> rows;
  for (std::string line; std::getline(stream, line);) {
    if (rows.empty() && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);  // as spreadsheets begin their files
    rows.push_back(parse_row(line, with_label, file.string() + ", line " + std::to_string(rows.size() + 1)));
  }
  if (rows.empty()) throw Error(file.string() + ": has no rows");
  return rows;
}

Split random_split(std::int64_t rows) {
  // numpy.random.RandomState(42).permutation(rows); its first quarter is the test.
  std::mt19937 words(42);
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  for (std::uint32_t i = static_cast<std::uint32_t>(rows) - 1; i > 0; --i) std::swap(order[i], order[drawn(words, i)]);
  const std::int64_t training = rows * 3 / 4;
  const auto begin = order.begin() + static_cast<std::ptrdiff_t>(rows - training);
  return {.training = {begin, order.end()}, .test = {order.begin(), begin}};
}

Split block_split(const std::vector<Row>& rows) {
  constexpr std::int64_t kBlock = 64, kGap = 16;
  Split split;
  std::array<std::int64_t, kClasses> seen = {};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t place = seen[static_cast<std::size_t>(rows[i].label)]++ % (4 * kBlock);  // the test: 192 to 255
    if (place >= 3 * kBlock) {
      split.test.push_back(static_cast<std::int64_t>(i));
    } else if (place >= kGap && place < 3 * kBlock - kGap) {
      split.training.push_back(static_cast<std::int64_t>(i));
    }
  }
  return split;
}

headway::Tensor point_tensor(const std::vector<Row>& rows) {
  headway::Tensor tensor = headway::Tensor::empty({static_cast<std::int64_t>(rows.size()), kPoints, 2});
  float* out = tensor.data<float>();
  for (const Row& row : rows) out = std::copy(row.points.begin(), row.points.end(), out);
  return tensor;
}

}  // namespace gestures
