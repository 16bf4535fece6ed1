#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "generate/beam.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "headway/threads.h"
#include "headway/translator.h"
#include "ops/decoding.h"
#include "support/message_of.h"
#include "support/small_translation_model.h"

namespace {

using headway::Hypothesis;
using headway::SearchOptions;
using headway::Tensor;
using headway::TranslationModel;
using headway_test::ids;
using headway_test::message_of;
using headway_test::small_options;
using Source = std::vector<std::int64_t>;

TranslationModel make(std::uint64_t seed, std::int64_t positions = small_options().max_position_embeddings) {
  headway::set_random_seed(seed);
  headway::TranslationModelOptions options = small_options();
  options.max_position_embeddings = positions;
  TranslationModel model(options);
  const headway::NoGradGuard guard;
  // Larger values than a new model has: its choices then differ from step to step, and </s> comes now and then.
  for (const auto& [name, parameter] : model.named_parameters()) {
    if (parameter.rank() == 2) parameter.detach().copy_from(headway::scale(parameter, 2.0));
  }
  model.state_dict().at("head.output.bias").fill(0.0);
  model.state_dict().at("head.output.bias").slice(0, 0, 1).fill(1.5);
  return model;
}

std::vector<Source> some_sources() {
  return {{5, 6, 7, 0}, {1, 0}, {8, 3, 2, 9, 11, 4, 0}, {0}, {5, 5, 5, 0}, {17, 18, 12, 13, 0}};
}

// Log-probabilities of the token after `tokens`, by the whole forward pass; <pad> has none.
std::vector<double> next_scores(const TranslationModel& model, const Source& source, const Source& tokens) {
  Source target = {small_options().decoder_start_token_id};
  target.insert(target.end(), tokens.begin(), tokens.end());
  const Tensor logits = model.forward({.source = ids({source}), .target = ids({target})}).logits;
  std::vector<double> scores = headway::log_softmax(logits.select(1, logits.size(1) - 1)).to_vector();
  scores[static_cast<std::size_t>(small_options().pad_token_id)] = -std::numeric_limits<double>::infinity();
  return scores;
}

struct Running {
  Source tokens;
  double score;
};

// Beam search as it reads: no caches, no batches, everything sorted.
std::vector<Hypothesis> plain_search(const TranslationModel& model, const Source& source,
                                     const SearchOptions& options) {
  const headway::NoGradGuard guard;
  const auto beam = static_cast<std::size_t>(options.beam);
  std::vector<Running> running = {{{}, 0.0}};
  std::vector<Hypothesis> finished;
  for (std::int64_t length = 1; length <= options.max_length; ++length) {
    std::vector<Running> all;
    for (const Running& from : running) {
      const std::vector<double> scores = next_scores(model, source, from.tokens);
      for (std::size_t token = 0; token < scores.size(); ++token) {
        if (std::isinf(scores[token])) continue;
        all.push_back({from.tokens, from.score + scores[token]});
        all.back().tokens.push_back(static_cast<std::int64_t>(token));
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const Running& a, const Running& b) { return a.score > b.score; });
    running.clear();
    const double divisor = std::pow(static_cast<double>(length), options.length_penalty);
    for (std::size_t i = 0; i < std::min(all.size(), 2 * beam); ++i) {
      const bool ends = all[i].tokens.back() == 0;
      if ((ends || length == options.max_length) && i < beam) {
        finished.push_back({all[i].tokens, all[i].score / divisor, ends});
      } else if (!ends && running.size() < beam) {
        running.push_back(all[i]);
      }
    }
    std::stable_sort(finished.begin(), finished.end(),
                     [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
    if (finished.size() > beam) finished.resize(beam);
    if (running.empty()) break;
    if (finished.size() == beam && running.front().score / divisor <= finished.back().score) break;
  }
  if (finished.size() > static_cast<std::size_t>(options.num_best)) {
    finished.resize(static_cast<std::size_t>(options.num_best));
  }
  return finished;
}

void expect_equal(const std::vector<Hypothesis>& found, const std::vector<Hypothesis>& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].tokens, wanted[i].tokens) << i;
    EXPECT_NEAR(found[i].score, wanted[i].score, 1e-4) << i;
    EXPECT_EQ(found[i].complete, wanted[i].complete) << i;
  }
}

TEST(Search, IsThePlainSearch) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const TranslationModel model = make(seed);
    model.eval();
    for (const std::int64_t beam : {1, 2, 4, 5}) {
      for (const double penalty : {1.0, 0.0, 0.6}) {
        const SearchOptions options = {
            .beam = beam, .num_best = beam, .length_penalty = penalty, .max_length = 12, .batch_size = 4};
        const auto found = headway::search(model, some_sources(), options);
        for (std::size_t i = 0; i < found.size(); ++i) {
          SCOPED_TRACE("seed " + std::to_string(seed) + " beam " + std::to_string(beam) + " source " +
                       std::to_string(i) + " penalty " + std::to_string(penalty));
          expect_equal(found[i], plain_search(model, some_sources()[i], options));
        }
      }
    }
  }
}

// Longer than what the buffers of the CPU begin with.
TEST(Search, LongHypothesesAreThoseOfThePlainSearch) {
  const TranslationModel model = make(3, 128);
  model.eval();
  const headway::NoGradGuard guard;
  model.state_dict().at("head.output.bias").slice(0, 0, 1).fill(-4.0);  // </s> seldom
  for (const std::int64_t beam : {1, 3}) {
    const SearchOptions options = {.beam = beam, .num_best = beam, .max_length = 70};
    const auto found = headway::search(model, some_sources(), options);
    for (const std::size_t i : {0, 2}) {
      SCOPED_TRACE("beam " + std::to_string(beam) + " source " + std::to_string(i));
      EXPECT_GT(found[i][0].tokens.size(), 64U);
      expect_equal(found[i], plain_search(model, some_sources()[i], options));
    }
  }
}

TEST(Search, BatchesAndThreadsChangeNothing) {
  const TranslationModel model = make(4);
  std::vector<Source> sources;
  for (std::int64_t i = 0; i < 40; ++i) {  // more rows than products of few rows take
    sources.push_back(some_sources()[static_cast<std::size_t>(i % 6)]);
    sources.back().front() = (i * 7) % 19;
  }
  const int before = headway::num_threads();
  for (const std::int64_t beam : {1, 3}) {
    headway::set_num_threads(1);
    const auto alone = headway::search(model, sources, {.beam = beam, .max_length = 20, .batch_size = 1});
    const auto one_thread = headway::search(model, sources, {.beam = beam, .max_length = 20, .batch_size = 64});
    headway::set_num_threads(3);
    const auto three_threads = headway::search(model, sources, {.beam = beam, .max_length = 20, .batch_size = 64});
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(alone[i][0].tokens, one_thread[i][0].tokens) << i;
      EXPECT_EQ(three_threads[i][0].tokens, one_thread[i][0].tokens) << i;
      EXPECT_EQ(three_threads[i][0].score, one_thread[i][0].score) << i;
    }
  }
  headway::set_num_threads(before);
}

TEST(Search, LeavesTrainingAndGradientsAsTheyWere) {
  const TranslationModel model = make(5);
  EXPECT_TRUE(model.is_training());
  const auto first = headway::search(model, some_sources(), {.max_length = 10});
  EXPECT_TRUE(model.is_training());
  const auto second = headway::search(model, some_sources(), {.max_length = 10});
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i][0].tokens, second[i][0].tokens);
  EXPECT_TRUE(model.parameters().front().requires_grad());
}

TEST(Search, NeverGivesPad) {
  const TranslationModel model = make(6);
  const headway::NoGradGuard guard;
  model.state_dict().at("head.output.bias").slice(0, 19, 20).fill(50.0);
  for (const std::int64_t beam : {1, 4}) {
    for (const auto& hypotheses : headway::search(model, some_sources(), {.beam = beam, .max_length = 9})) {
      for (const std::int64_t token : hypotheses[0].tokens) EXPECT_NE(token, 19);
    }
  }
}

TEST(Search, StopsAtMaxLength) {
  const TranslationModel model = make(7);
  const headway::NoGradGuard guard;
  model.state_dict().at("head.output.bias").slice(0, 0, 1).fill(-1e9);  // </s> never
  for (const std::int64_t beam : {1, 4}) {
    const auto found = headway::search(model, {{5, 0}}, {.beam = beam, .num_best = beam, .max_length = 5});
    ASSERT_EQ(found[0].size(), static_cast<std::size_t>(beam));
    EXPECT_EQ(found[0][0].tokens.size(), 5U);
    EXPECT_FALSE(found[0][0].complete);
    // As many as there are positions.
    EXPECT_EQ(headway::search(model, {{5, 0}}, {.beam = beam})[0][0].tokens.size(), 32U);
  }
}

TEST(Search, TellsEveryToken) {
  const TranslationModel model = make(8);
  Source told;
  SearchOptions options = {.max_length = 12};
  options.on_token = [&](std::int64_t token, const std::string& text) {
    told.push_back(token);
    EXPECT_EQ(text, "");
  };
  EXPECT_EQ(headway::search(model, {{5, 6, 0}}, options)[0][0].tokens, told);
}

TEST(Search, NamesWhatIsWrong) {
  const TranslationModel model = make(9);
  const auto complaint = [&](const std::vector<Source>& sources, const SearchOptions& options) {
    return message_of([&] { headway::search(model, sources, options); });
  };
  EXPECT_EQ(complaint({{1, 0}}, {.beam = 0}), "search: beam is 0, expected 1 to 1024");
  EXPECT_EQ(complaint({{1, 0}}, {.beam = 2, .num_best = 3}), "search: num_best is 3, expected 1 to beam, 2");
  EXPECT_EQ(complaint({{1, 0}, {}}, {}), "search: source 1 has 0 tokens, expected 1 to 32");
  EXPECT_EQ(complaint({Source(33, 1)}, {}), "search: source 0 has 33 tokens, expected 1 to 32");
  EXPECT_EQ(complaint({{1, 20}}, {}), "search: source 0 has id 20, expected 0 to 19");
  EXPECT_EQ(complaint({{1, 0}}, {.batch_size = 0}), "search: batch_size is 0, expected 1 or more");
  EXPECT_EQ(complaint({{1, 0}}, {.max_length = -1}), "search: max_length is -1, expected 0 or more");
  SearchOptions options = {.beam = 2};
  options.on_token = [](std::int64_t, const std::string&) {};
  EXPECT_EQ(complaint({{1, 0}}, options),
            "search: on_token is given for 1 sources and a beam of 2, expected one source and greedy search");
  EXPECT_TRUE(headway::search(model, {}, {}).empty());
  const headway::NoGradGuard guard;
  model.state_dict().at("head.output.bias").fill(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(complaint({{1, 0}}, {.beam = 2}), "search: the model returns logits that are not numbers");
}

// Searches with the same weights on the CPU and on a device.
void expect_device_finds_the_same(const std::vector<Source>& sources, const SearchOptions& options) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const TranslationModel here = make(seed), there = make(seed);
    there.to(headway::Device::cuda());
    const auto expected = headway::search(here, sources, options), found = headway::search(there, sources, options);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      ASSERT_EQ(found[i].size(), expected[i].size());
      for (std::size_t n = 0; n < found[i].size(); ++n) {
        EXPECT_EQ(found[i][n].tokens, expected[i][n].tokens) << "seed " << seed << ", source " << i << ", " << n;
        EXPECT_NEAR(found[i][n].score, expected[i][n].score, 1e-4);
        EXPECT_EQ(found[i][n].complete, expected[i][n].complete);
      }
    }
  }
}

TEST(SearchOnADevice, FindsWhatTheCpuFinds) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  for (const std::int64_t beam : {1, 2, 3, 4}) {
    for (const std::int64_t batch : {1, 4, 64}) {
      SCOPED_TRACE("beam " + std::to_string(beam) + ", batches of " + std::to_string(batch));
      expect_device_finds_the_same(some_sources(), {.beam = beam, .num_best = beam, .batch_size = batch});
    }
  }
  expect_device_finds_the_same(some_sources(), {.beam = 3, .length_penalty = 0.5, .max_length = 7});
  expect_device_finds_the_same(some_sources(), {.max_length = 1});
}

TEST(SearchOnADevice, LetsRowsOfALargeBatchGo) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  std::vector<Source> sources;
  for (int i = 0; i < 40; ++i) {
    for (const Source& source : some_sources()) sources.push_back(source);
  }
  expect_device_finds_the_same(sources, {.batch_size = 512});
  expect_device_finds_the_same(sources, {.beam = 2, .batch_size = 300});
}

TEST(SearchOnADevice, TakesNumbersOf16Bits) {
  TranslationModel model = make(1);
  model.to(headway::DType::bfloat16);
  EXPECT_EQ(message_of([&] { headway::search(model, some_sources()); }),
            "search: the model is of bfloat16 on the CPU, expected float32");
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  model.to(headway::Device::cuda());
  for (const std::int64_t beam : {1, 2}) {
    const auto found = headway::search(model, some_sources(), {.beam = beam, .max_length = 6});
    for (const std::vector<Hypothesis>& best : found) EXPECT_LT(best.front().score, 0.0);
  }
}

TEST(SearchOnADevice, TellsEveryToken) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  const TranslationModel model = make(1);
  model.to(headway::Device::cuda());
  Source told;
  const auto found = headway::search(model, {{5, 6, 7, 0}},
                                     {.on_token = [&](std::int64_t id, const std::string&) { told.push_back(id); }});
  EXPECT_EQ(told, found.front().front().tokens);
}

TEST(SearchScores, FindsTheBestOfMany) {
  constexpr std::int64_t kCount = 1003, kRows = 3, kBest = 7;
  const Tensor values = Tensor::randn({kRows, kCount}, 12);
  float* data = values.data<float>();
  data[700] = data[20] = 9.0F;
  const headway::internal::TopTokens top = {Tensor::zeros({kRows, kBest}, headway::DType::int64),
                                            Tensor::zeros({kRows, kBest}), Tensor::zeros({kRows})};
  headway::internal::top_tokens(values, {}, top);
  EXPECT_EQ(top.tokens.at({0, 0}), 20.0);
  headway::internal::BestCandidates best(kBest);
  std::vector<headway::internal::Candidate> all;
  for (std::int64_t row = 0; row < kRows; ++row) {
    const double offset = 0.5 * static_cast<double>(row);
    for (std::int64_t k = 0; k < kBest; ++k) {
      best.add({top.logits.at({row, k}) + offset, row, top.tokens.data<std::int64_t>()[row * kBest + k]});
    }
    for (std::int64_t i = 0; i < kCount; ++i) all.push_back({data[row * kCount + i] + offset, row, i});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  ASSERT_EQ(best.sorted().size(), 7U);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(best.sorted()[i].beam, all[i].beam);
    EXPECT_EQ(best.sorted()[i].token, all[i].token);
  }
}

}  // namespace
