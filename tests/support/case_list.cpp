// The lists of cases: pairs of options, edges of tiles, and random ones.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "support/cases.h"
#include "support/random.h"

namespace headway_test {
namespace {

using std::int64_t;

// The rows of the option table, in the order of kRows.
enum RowIndex {
  kHeadSizes,
  kGroups,
  kCausal,
  kOffset,
  kWindow,
  kMask,
  kBias,
  kKeyLengths,
  kPacked,
  kScale,
  kSoftcap,
  kAlibi,
  kSinks,
  kDropout,
  kWeights,
  kDWeights,
  kDLogsumexp,
  kDtype,
  kLayout,
  kLengths,
};

enum LengthLevel { kSquare, kMoreKeys, kMoreQueries, kDecode, kTwoTiles };

Weights weights_at(int level) { return level == 0 ? Weights::none : level <= 4 ? Weights::per_head : Weights::mean; }
WeightsOf weights_of_at(int level) { return level == 0 ? WeightsOf::softmax : static_cast<WeightsOf>((level - 1) % 4); }

constexpr Extent kMaskExtents[] = {Extent::full, Extent::batch_key, Extent::query_key, Extent::head_query};
constexpr Extent kBiasExtents[] = {Extent::full, Extent::query_key, Extent::batch_key, Extent::head_query,
                                   Extent::plain};
constexpr DType kDtypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16};

void draw_lengths(Case& c, int level, Random& random) {
  switch (level) {
    case kSquare:
      c.query_length = c.key_length = random.pick({5, 12, 16, 23, 32, 33});
      break;
    case kMoreKeys:
      c.query_length = random.pick({3, 9, 16, 21});
      c.key_length = c.query_length + random.between(1, 40);
      break;
    case kMoreQueries:
      c.key_length = random.pick({4, 8, 19, 30});
      c.query_length = c.key_length + random.between(1, 30);
      break;
    case kDecode:
      c.query_length = 1;
      c.key_length = random.between(300, 700);
      break;
    default:
      c.query_length = random.between(66, 140);
      c.key_length = c.query_length + random.between(1, 30);
  }
}

// A case that has the given level in each row; everything else is drawn.
Case make_case(const std::vector<int>& levels, Random& random) {
  Case c;
  c.seed = random.next() >> 32;
  c.dtype = kDtypes[levels[kDtype]];
  draw_lengths(c, levels[kLengths], random);
  const bool small = levels[kLengths] < kDecode;
  c.batch = levels[kPacked] == 1 ? random.between(2, 4) : random.between(1, small ? 3 : 2);
  c.head_dim = random.pick(small ? std::initializer_list<int64_t>{8, 16, 20, 31, 40, 64}
                                 : std::initializer_list<int64_t>{8, 24, 33});
  c.value_dim = c.head_dim;
  if (levels[kHeadSizes] == 1) c.value_dim = c.head_dim + random.pick({-5, -3, 4, 9, 16});
  c.kv_heads = levels[kGroups] == 2 ? 1 : random.between(1, 2);
  c.heads = levels[kGroups] == 0 ? c.kv_heads : c.kv_heads * random.between(2, 3);

  c.causal = static_cast<Causal>(levels[kCausal]);
  c.offset = static_cast<PerEntryKind>(levels[kOffset]);
  const int64_t reach = std::max<int64_t>(1, c.key_length * 3 / 4);
  if (levels[kWindow] == 1 || levels[kWindow] == 3) c.window.left = random.between(reach / 3, reach);
  if (levels[kWindow] == 2 || levels[kWindow] == 3) c.window.right = random.between(reach / 3, reach);
  if (levels[kMask] > 0) {
    c.mask = levels[kMask] <= 2 ? MaskKind::keep : MaskKind::drop;
    c.mask_extent = kMaskExtents[levels[kMask] - 1];
  }
  if (levels[kBias] > 0) {
    c.bias = true;
    c.bias_extent = kBiasExtents[(levels[kBias] - 1) % 5];
    c.bias_gradient = levels[kBias] != 6;
    c.bias_infinities = random.chance(0.5);
    c.bias_float32 = random.chance(0.3);
  }
  c.key_lengths = static_cast<PerEntryKind>(levels[kKeyLengths]);
  c.packed = levels[kPacked] == 1;
  if (levels[kScale] == 1) c.scale = static_cast<double>(random.between(5, 15)) / 10 / std::sqrt(c.head_dim);
  if (levels[kSoftcap] == 1) c.softcap = static_cast<double>(random.between(10, 30)) / 10;
  c.alibi = static_cast<AlibiKind>(levels[kAlibi]);
  c.sinks = levels[kSinks] == 1;
  c.dropout = levels[kDropout] == 1 ? static_cast<double>(random.between(1, 6)) / 10 : 0;
  c.weights = weights_at(levels[kWeights]);
  c.weights_of = weights_of_at(levels[kWeights]);
  c.d_weights = levels[kDWeights] == 1;
  c.d_logsumexp = levels[kDLogsumexp] == 1;
  c.layout = static_cast<Layout>(levels[kLayout]);
  // Without d_output only the other two gradients flow.
  c.d_output = !(c.d_weights || c.d_logsumexp) || !random.chance(0.15);
  return c;
}

// Draws levels at random; the gradient of weights that are not there is left out.
std::vector<int> draw_levels(Random& random) {
  std::vector<int> levels;
  for (const OptionRow& row : option_rows()) {
    levels.push_back(static_cast<int>(random.between(0, static_cast<int64_t>(row.levels.size()) - 1)));
  }
  if (levels[kWeights] == 0) levels[kDWeights] = 0;
  return levels;
}

// Which pairs of levels have been seen; the two levels are counted through all rows.
class PairTable {
 public:
  PairTable() {
    for (const OptionRow& row : option_rows()) {
      first_.push_back(total_);
      total_ += static_cast<int>(row.levels.size());
    }
    missing_.assign(static_cast<size_t>(total_ * total_), 0);
    for_each_pair([&](int row_a, int a, int row_b, int b) {
      if (pair_possible(row_a, a, row_b, b)) missing_[index(row_a, a, row_b, b)] = 1;
    });
  }
  // How many missing pairs this case would bring.
  int gain(const std::vector<int>& levels) const {
    int count = 0;
    for (int a = 0; a < rows(); ++a) {
      for (int b = a + 1; b < rows(); ++b) count += missing_[index(a, levels[size_t(a)], b, levels[size_t(b)])];
    }
    return count;
  }
  void take(const std::vector<int>& levels) {
    for (int a = 0; a < rows(); ++a) {
      for (int b = a + 1; b < rows(); ++b) missing_[index(a, levels[size_t(a)], b, levels[size_t(b)])] = 0;
    }
  }
  bool complete() const { return std::count(missing_.begin(), missing_.end(), 1) == 0; }
  // Sets two rows of `levels` to a pair that is missing.
  void seed_missing(std::vector<int>& levels) const {
    bool done = false;
    for_each_pair([&](int row_a, int a, int row_b, int b) {
      if (done || missing_[index(row_a, a, row_b, b)] == 0) return;
      levels[size_t(row_a)] = a;
      levels[size_t(row_b)] = b;
      done = true;
    });
    if (levels[kDWeights] == 1 && levels[kWeights] == 0) levels[kWeights] = 1;
  }

 private:
  int rows() const { return static_cast<int>(option_rows().size()); }
  size_t index(int row_a, int a, int row_b, int b) const {
    return static_cast<size_t>((first_[size_t(row_a)] + a) * total_ + first_[size_t(row_b)] + b);
  }
  void for_each_pair(const std::function<void(int, int, int, int)>& visit) const {
    for (int row_a = 0; row_a < rows(); ++row_a) {
      for (int row_b = row_a + 1; row_b < rows(); ++row_b) {
        for (int a = 0; a < static_cast<int>(option_rows()[size_t(row_a)].levels.size()); ++a) {
          for (int b = 0; b < static_cast<int>(option_rows()[size_t(row_b)].levels.size()); ++b) {
            visit(row_a, a, row_b, b);
          }
        }
      }
    }
  }
  std::vector<int> first_;
  int total_ = 0;
  std::vector<char> missing_;
};

int64_t environment_number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == 0 ? otherwise : std::strtoll(text, nullptr, 10);
}

std::string numbered(const char* prefix, size_t number) {
  char name[64];
  std::snprintf(name, sizeof name, "%s_%03zu", prefix, number);
  return name;
}

}  // namespace

const std::vector<OptionRow>& option_rows() {
  static const std::vector<OptionRow> rows = {
      {"head sizes", {"equal", "value differs"}},
      {"grouped queries", {"none", "grouped", "multi-query"}},
      {"causal", {"none", "top_left", "bottom_right"}},
      {"query offset", {"none", "one", "each"}},
      {"window", {"none", "left", "right", "both"}},
      {"mask", {"none", "keep full", "keep [b,1,1,k]", "drop [1,1,q,k]", "drop [1,h,q,1]"}},
      {"bias", {"none", "[b,h,q,k]", "[1,1,q,k]", "[b,1,1,k]", "[1,h,q,1]", "[q,k]", "without gradient"}},
      {"key lengths", {"none", "one", "each"}},
      {"packed", {"no", "yes"}},
      {"scale", {"default", "given"}},
      {"softcap", {"none", "given"}},
      {"ALiBi", {"none", "per head", "per entry"}},
      {"sinks", {"none", "given"}},
      {"dropout", {"none", "given"}},
      {"weights",
       {"none", "softmax", "scores", "softcapped", "masked", "mean softmax", "mean scores", "mean softcapped",
        "mean masked"}},
      {"d_weights", {"none", "given"}},
      {"d_logsumexp", {"none", "given"}},
      {"dtype", {"float32", "float64", "bfloat16", "float16"}},
      {"layout", {"heads first", "length first", "padded"}},
      {"lengths", {"square", "more keys", "more queries", "decode", "two tiles"}},
  };
  return rows;
}

std::vector<int> levels_of(const Case& c) {
  std::vector<int> levels(option_rows().size());
  levels[kHeadSizes] = c.head_dim != c.value_dim;
  levels[kGroups] = c.heads == c.kv_heads ? 0 : c.kv_heads == 1 ? 2 : 1;
  levels[kCausal] = static_cast<int>(c.causal);
  levels[kOffset] = static_cast<int>(c.offset);
  levels[kWindow] = (c.window.left ? 1 : 0) + (c.window.right ? 2 : 0);
  if (c.mask != MaskKind::none) {
    levels[kMask] =
        static_cast<int>(std::find(std::begin(kMaskExtents), std::end(kMaskExtents), c.mask_extent) - kMaskExtents) + 1;
  }
  if (c.bias) {
    const auto extent = std::find(std::begin(kBiasExtents), std::end(kBiasExtents), c.bias_extent) - kBiasExtents;
    levels[kBias] = c.bias_gradient ? static_cast<int>(extent) + 1 : 6;
  }
  levels[kKeyLengths] = static_cast<int>(c.key_lengths);
  levels[kPacked] = c.packed;
  levels[kScale] = c.scale.has_value();
  levels[kSoftcap] = c.softcap.has_value();
  levels[kAlibi] = static_cast<int>(c.alibi);
  levels[kSinks] = c.sinks;
  levels[kDropout] = c.dropout > 0;
  if (c.weights != Weights::none) {
    levels[kWeights] = static_cast<int>(c.weights_of) + (c.weights == Weights::mean ? 5 : 1);
  }
  levels[kDWeights] = c.d_weights;
  levels[kDLogsumexp] = c.d_logsumexp;
  levels[kDtype] = static_cast<int>(std::find(std::begin(kDtypes), std::end(kDtypes), c.dtype) - kDtypes);
  levels[kLayout] = static_cast<int>(c.layout);
  levels[kLengths] = c.query_length == 1 && c.key_length >= 256 ? kDecode
                     : c.query_length > 64                      ? kTwoTiles
                     : c.query_length == c.key_length           ? kSquare
                     : c.query_length < c.key_length            ? kMoreKeys
                                                                : kMoreQueries;
  return levels;
}

bool pair_possible(int row_a, int level_a, int row_b, int level_b) {
  if (row_a > row_b) return pair_possible(row_b, level_b, row_a, level_a);
  return !(row_a == kWeights && level_a == 0 && row_b == kDWeights && level_b == 1);
}

std::vector<Case> pair_cases() {
  constexpr int kCandidates = 60, kRounds = 3;
  Random random(20240601);
  std::vector<Case> cases;
  PairTable table;
  for (int round = 0; round < kRounds;) {
    if (table.complete()) {
      table = PairTable();
      ++round;
      continue;
    }
    std::vector<int> best;
    int best_gain = 0;
    for (int candidate = 0; candidate < kCandidates; ++candidate) {
      std::vector<int> levels = draw_levels(random);
      table.seed_missing(levels);
      const int gain = table.gain(levels);
      if (gain > best_gain) {
        best_gain = gain;
        best = levels;
      }
    }
    Case c = make_case(best, random);
    c.name = numbered("pair", cases.size());
    // Drawn sizes decide some levels too, such as one head that can be no group.
    table.take(levels_of(c));
    cases.push_back(c);
  }
  return cases;
}

std::vector<Case> random_cases(int count, std::uint64_t seed) {
  Random random(seed);
  std::vector<Case> cases;
  for (int n = 0; n < count; ++n) {
    std::vector<int> levels = draw_levels(random);
    // Half of the rows stay at their defaults, so that options also meet plain surroundings.
    for (int row = 0; row < kDtype; ++row) {
      if (random.chance(0.5)) levels[static_cast<size_t>(row)] = 0;
    }
    if (levels[kWeights] == 0) levels[kDWeights] = 0;
    Case c = make_case(levels, random);
    c.name = numbered("random", static_cast<size_t>(n));
    cases.push_back(c);
  }
  return cases;
}

std::vector<Case> gradcheck_cases() {
  Random random(77);
  std::vector<Case> cases;
  for (int n = 0; n < 48; ++n) {
    std::vector<int> levels = draw_levels(random);
    for (int row = 0; row < kDtype; ++row) {
      if (n % 2 == 0 && random.chance(0.5)) levels[static_cast<size_t>(row)] = 0;
    }
    if (levels[kWeights] == 0) levels[kDWeights] = 0;
    levels[kDtype] = 1;
    levels[kLengths] = static_cast<int>(random.between(kSquare, kMoreQueries));
    Case c = make_case(levels, random);
    c.query_length = std::min<int64_t>(c.query_length, 9 + n % 3);
    c.key_length = std::min<int64_t>(c.key_length, 7 + n % 5);
    c.head_dim = std::min<int64_t>(c.head_dim, 8);
    c.value_dim = std::min<int64_t>(c.value_dim, 6 + n % 4);
    c.d_output = true;
    c.name = numbered("gradcheck", static_cast<size_t>(n));
    cases.push_back(c);
  }
  return cases;
}

bool reduced() { return environment_number("HEADWAY_TEST_REDUCED", 0) != 0; }

std::vector<DType> test_dtypes() {
  if (reduced()) return {DType::float32, DType::bfloat16};
  return {std::begin(kDtypes), std::end(kDtypes)};
}

std::uint64_t random_seed() { return static_cast<std::uint64_t>(environment_number("HEADWAY_TEST_SEED", 20240215)); }

std::vector<Case> all_cases() {
  std::vector<Case> cases = pair_cases();
  const std::vector<Case> edges = edge_cases();
  cases.insert(cases.end(), edges.begin(), edges.end());
  const std::vector<Case> random =
      random_cases(static_cast<int>(environment_number("HEADWAY_TEST_RANDOM", 120)), random_seed());
  cases.insert(cases.end(), random.begin(), random.end());
  if (const char* name = std::getenv("HEADWAY_TEST_CASE")) {
    std::erase_if(cases, [&](const Case& c) { return c.name != name; });
  } else if (reduced()) {
    // Every third of the small ones: the options still meet each other, and no case is long.
    size_t index = 0;
    std::erase_if(cases, [&](const Case& c) {
      const int64_t work = c.batch * c.heads * c.query_length * c.key_length * (c.head_dim + c.value_dim);
      return index++ % 3 != 0 || work > 3'000'000;
    });
  }
  return cases;
}

}  // namespace headway_test
