// Attention on the GPU against the reference: the CPU's whole list of cases, edges of tiles, random configurations.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <utility>

#include "cuda/case_report.h"
#include "cuda/device_problem.h"
#include "support/random.h"

namespace headway_test {
namespace {

using std::int64_t;

constexpr int64_t kLengths[] = {1, 7, 8, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257};
constexpr int64_t kHeadSizes[] = {1, 8, 16, 33, 64, 72, 80, 96, 100, 128, 160, 192, 256, 264, 320};
constexpr int64_t kTunedHeadSizes[] = {64, 128, 256};
constexpr DType kDtypes[] = {DType::bfloat16, DType::float16, DType::float32};
enum Form { kFull, kCausal, kKeyLengths, kWindow, kGrouped, kForms };

Case shaped(DType dtype, int64_t queries, int64_t keys, int64_t dim) {
  Case c = sized(dtype, 1, 2, {queries, keys, dim, dim});
  c.seed = static_cast<std::uint64_t>(queries * 1'000'003 + keys * 1009 + dim);
  return c;
}

// Gives a case one of the forms; `turn` chooses between variants of it.
void set_form(Case& c, int form, int64_t turn) {
  static constexpr const char* kNames[] = {"full", "causal", "key_lengths", "window", "grouped"};
  c.name = std::string(kNames[form]) + "_" + std::to_string(c.query_length) + "x" + std::to_string(c.key_length) + "_" +
           std::to_string(c.head_dim) + "_" + std::string(headway::dtype_name(c.dtype));
  if (form == kCausal) c.causal = turn % 2 == 0 ? Causal::top_left : Causal::bottom_right;
  if (form == kKeyLengths) {
    c.batch = 3;
    c.heads = c.kv_heads = 1;
    c.key_lengths = PerEntryKind::each;
  }
  if (form == kWindow) {
    c.window = {.left = 10 + turn % 7 * 9, .right = turn % 3 * 31};
    if (turn % 2 == 0) c.causal = Causal::bottom_right;
  }
  if (form == kGrouped) {
    c.heads = 4;
    c.kv_heads = turn % 2 == 0 ? 2 : 1;
    if (turn % 3 == 0) c.causal = Causal::top_left;
  }
  if (turn % 4 == 3) c.layout = Layout::length_first;
}

// Under a sanitizer every seventh case must do: neighbours differ in several ways at once.
std::vector<Case> thinned(std::vector<Case> cases) {
  if (!reduced()) return cases;
  std::size_t index = 0;
  std::erase_if(cases, [&](const Case&) { return index++ % 7 != 0; });
  return cases;
}

TEST(CudaAttention, MatchesTheReferenceOnTheWholeList) {
  std::cout << "random seed " << random_seed() << "\n";
  expect_cases_match(all_cases());
}

// Every query length meets five key lengths, each with a tuned head size in both 16-bit types and with another one.
std::vector<Case> edges_of_tiles() {
  std::vector<Case> cases;
  int64_t turn = 0;
  const auto add = [&](DType dtype, int64_t queries, int64_t keys, int64_t dim, int64_t form) {
    Case c = shaped(dtype, queries, keys, dim);
    set_form(c, static_cast<int>(form % kForms), turn);
    cases.push_back(c);
  };
  for (std::size_t q = 0; q < std::size(kLengths); ++q) {
    for (std::size_t step : {0u, 1u, 4u, 8u, 13u}) {
      const int64_t queries = kLengths[q], keys = kLengths[(q + step) % std::size(kLengths)];
      const int64_t tuned = kTunedHeadSizes[turn % 3];
      add(DType::bfloat16, queries, keys, tuned, turn);
      add(DType::float16, queries, keys, kTunedHeadSizes[(turn + 1) % 3], turn + 2);
      const auto other = static_cast<std::size_t>(turn * 7) % std::size(kHeadSizes);
      add(kDtypes[turn % 3], queries, keys, kHeadSizes[other], turn + 3);
      ++turn;
    }
  }
  return thinned(std::move(cases));
}

TEST(CudaAttention, EdgesOfTiles) { expect_cases_match(edges_of_tiles()); }

TEST(CudaAttention, EdgesOfTilesInAnyOrder) { expect_cases_match(edges_of_tiles(), false); }

// Every head size in every form and dtype.
TEST(CudaAttention, HeadSizes) {
  constexpr int64_t kQueries[] = {1, 65, 100, 130, 3}, kKeys[] = {70, 129, 200};
  std::vector<Case> cases;
  int64_t turn = 0;
  for (int64_t dim : kHeadSizes) {
    for (int form = 0; form < kForms; ++form) {
      for (DType dtype : kDtypes) {
        Case c = shaped(dtype, kQueries[turn % 5], kKeys[turn / 5 % 3], dim);
        set_form(c, form, turn);
        cases.push_back(c);
        turn += 2;
      }
    }
    turn += 1;
  }
  expect_cases_match(thinned(std::move(cases)));
}

TEST(CudaAttention, RandomOptions) {
  std::cout << "random seed " << random_seed() << "\n";
  expect_cases_match(thinned(random_cases(500, random_seed() + 1)));
}

// A case with few options and the sizes for which kernels are tuned.
Case draw_common(Random& random) {
  const int64_t kind = random.between(0, 19);
  Case c = shaped(kind < 10   ? DType::bfloat16
                  : kind < 15 ? DType::float16
                  : kind < 19 ? DType::float32
                              : DType::float64,
                  random.between(1, 300), random.between(1, 300),
                  random.pick({64, 64, 128, 128, 256, 32, 72, 80, 96, 100, 192}));
  c.seed = random.next() >> 32;
  if (random.chance(0.1)) {
    c.query_length = random.between(1, 4);
    c.key_length = random.between(300, 1500);
  }
  c.kv_heads = random.between(1, 2);
  c.heads = c.kv_heads * (random.chance(0.3) ? random.between(2, 4) : 1);
  if (random.chance(0.1)) c.value_dim = random.pick({32, 64, 96, 128});
  if (random.chance(0.5)) c.causal = random.chance(0.5) ? Causal::top_left : Causal::bottom_right;
  if (random.chance(0.15)) c.window = {.left = random.between(0, 150), .right = random.between(0, 150)};
  c.packed = random.chance(0.15);
  c.batch = c.packed ? random.between(2, 5) : random.between(1, 3);
  if (random.chance(0.2)) c.key_lengths = PerEntryKind::each;
  if (random.chance(0.1)) c.offset = PerEntryKind::each;
  if (random.chance(0.1)) c.mask = MaskKind::keep;
  c.mask_extent = random.chance(0.5) ? Extent::batch_key : Extent::full;
  c.bias = random.chance(0.2);
  c.bias_extent = static_cast<Extent>(random.between(0, 3));                    // all that have four dimensions
  if (c.bias && random.chance(0.5)) c.key_length = (c.key_length + 7) / 8 * 8;  // rows that bulk copies reach
  if (random.chance(0.1)) c.softcap = 2;
  if (random.chance(0.1)) c.alibi = AlibiKind::per_head;
  c.sinks = random.chance(0.1);
  if (random.chance(0.15)) c.dropout = 0.3;
  if (random.chance(0.1)) c.weights = random.chance(0.5) ? Weights::per_head : Weights::mean;
  c.d_weights = c.weights != Weights::none && random.chance(0.5);
  c.layout = static_cast<Layout>(random.chance(0.6) ? 0 : random.between(1, 2));
  // The reference takes its time.
  constexpr int64_t kMostWork = 8'000'000;
  while (c.batch * c.heads * c.query_length * c.key_length * c.head_dim > kMostWork) {
    (c.query_length > c.key_length ? c.query_length : c.key_length) /= 2;
  }
  return c;
}

std::vector<Case> common_cases(std::uint64_t seed) {
  Random random(seed);
  std::vector<Case> cases;
  for (int n = 0; n < 500; ++n) {
    cases.push_back(draw_common(random));
    cases.back().name = "common_" + std::to_string(n);
  }
  return thinned(std::move(cases));
}

TEST(CudaAttention, RandomCommonSizes) {
  std::cout << "random seed " << random_seed() << "\n";
  expect_cases_match(common_cases(random_seed() + 2));
}

TEST(CudaAttention, RandomCommonSizesInAnyOrder) {
  std::cout << "random seed " << random_seed() << "\n";
  expect_cases_match(common_cases(random_seed() + 3), false);
}

// The same call gives the same bits, in whatever state memory is.
TEST(CudaAttention, RunsGiveTheSameBits) {
  Messages messages;
  Random random(5);
  std::vector<Case> cases = pair_cases();
  for (int n = 0; n < 100; ++n) cases.push_back(draw_common(random));
  for (const Case& c : thinned(std::move(cases))) {
    messages.guarded(describe(c), [&] {
      const headway::AttentionBackward p = build(c);
      const Named first = run_on_gpu(p), second = run_on_gpu(p);
      for (std::size_t n = 0; n < first.size(); ++n) {
        messages.expect(same_bits(first[n].second, second[n].second), describe(c) + "\n  " + first[n].first);
      }
    });
  }
}

}  // namespace
}  // namespace headway_test
