// One list of attention problems, which drives the forward test, the gradient test and the benchmark: `bench/run.sh
// --cases` measures every case.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headway/attention.h"

namespace headway_test {

using headway::AttentionBackward;
using headway::AttentionResult;
using headway::Causal;
using headway::DType;
using headway::Mask;
using headway::Tensor;
using headway::Weights;
using headway::WeightsOf;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// How the memory of query, key, value and d_output is laid out.
enum class Layout {
  heads_first,   // [batch, heads, length, dim], contiguous
  length_first,  // [batch, length, heads, dim], seen with the two middle dimensions swapped
  padded,        // heads_first with odd strides and an unaligned start; the gaps hold NaN
};

// A number that is absent, the same for all batch entries, or one for each.
enum class PerEntryKind { none, one, each };

enum class MaskKind { none, keep, drop };

// The shape of a mask or bias before it is broadcast to [batch, heads, query_length, key_length].
enum class Extent {
  full,        // [batch, heads, query, key]
  query_key,   // [1, 1, query, key]
  batch_key,   // [batch, 1, 1, key]
  head_query,  // [1, heads, query, 1]
  plain,       // [query, key]
};

enum class AlibiKind { none, per_head, per_entry };

// One attention problem, with everything that decides its tensors and options.
struct Case {
  std::string name = {};
  DType dtype = DType::float32;
  std::int64_t batch = 1;  // sequences, when packed
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t query_length = 1;  // the longest sequence, when packed
  std::int64_t key_length = 1;    // likewise
  std::int64_t head_dim = 1;
  std::int64_t value_dim = 1;

  Causal causal = Causal::none;
  PerEntryKind offset = PerEntryKind::none;
  headway::Window window = {};
  MaskKind mask = MaskKind::none;
  Extent mask_extent = Extent::full;
  bool bias = false;
  Extent bias_extent = Extent::full;
  bool bias_infinities = false;  // some of the bias is -inf
  bool bias_float32 = false;     // the bias is float32 whatever the inputs are
  bool bias_gradient = true;
  PerEntryKind key_lengths = PerEntryKind::none;
  bool packed = false;
  std::optional<double> scale = {};
  std::optional<double> softcap = {};
  AlibiKind alibi = AlibiKind::none;
  bool sinks = false;
  double dropout = 0.0;
  Weights weights = Weights::none;
  WeightsOf weights_of = WeightsOf::softmax;

  Layout layout = Layout::heads_first;
  bool d_output = true;
  bool d_weights = false;
  bool d_logsumexp = false;
  std::uint64_t seed = 1;
};

// Lengths and head sizes of a case.
struct Sizes {
  std::int64_t queries = 1, keys = 1, head_dim = 1, value_dim = 1;
};
// A case with as many key heads as query heads and no options.
Case sized(DType dtype, std::int64_t batch, std::int64_t heads, const Sizes& sizes);

// The tensors and options of a case. `forward` is left empty.
AttentionBackward build(const Case& c);

// All the fields that are not at their defaults, in one line.
std::string describe(const Case& c);

// A copy of `tensor` [batch, heads, length, dim] with the same values in another layout.
Tensor with_layout(const Tensor& tensor, Layout layout);

// Fills the row [b, h, i, :] of a tensor.
inline void fill_row(const Tensor& tensor, std::int64_t b, std::int64_t h, std::int64_t i, double value) {
  tensor.select(0, b).select(0, h).select(0, i).fill(value);
}

// ---- the parts of the list ----
// Every pair of levels of two different rows of the option table, found by a greedy search with a fixed seed.
std::vector<Case> pair_cases();
// Lengths and head sizes around the edges of tiles and vectors, and a few long ones.
std::vector<Case> edge_cases();
// `count` cases with all options drawn at random.
std::vector<Case> random_cases(int count, std::uint64_t seed);
// Small float64 cases of all options, for finite differences.
std::vector<Case> gradcheck_cases();

// The whole list. The environment decides: HEADWAY_TEST_REDUCED=1 takes a subset for sanitizers and emulators,
// HEADWAY_TEST_RANDOM and HEADWAY_TEST_SEED the count and the seed of the random cases, HEADWAY_TEST_CASE one name.
std::vector<Case> all_cases();

// True when HEADWAY_TEST_REDUCED asks for the small subset.
bool reduced();
// All floating dtypes, or float32 and bfloat16 in the small subset.
std::vector<DType> test_dtypes();
// The seed of the random cases: HEADWAY_TEST_SEED, else a fixed number.
std::uint64_t random_seed();

// ---- counting pairs ----
// A row of the option table with the name of each of its levels.
struct OptionRow {
  std::string_view name;
  std::vector<std::string_view> levels;
};
const std::vector<OptionRow>& option_rows();
// The level that a case has in each row.
std::vector<int> levels_of(const Case& c);
// False for the pairs that cannot occur, such as a gradient of weights that were not asked for.
bool pair_possible(int row_a, int level_a, int row_b, int level_b);

}  // namespace headway_test
