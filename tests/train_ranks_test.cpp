// Training on several ranks: what it has in common with one rank, bit by bit or within rounding.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <mutex>
#include <set>

#include "core/autograd.h"
#include "headway/autograd.h"
#include "headway/random.h"
#include "support/message_of.h"
#include "support/rank_runs.h"
#include "train/optimizer_shares.h"

namespace {

using headway::AdamOptions;
using headway::BatchLoss;
using headway::BatchPosition;
using headway::Communicator;
using headway::DType;
using headway::NamedTensor;
using headway::Optimizer;
using headway::ParameterGroup;
using headway::StepReport;
using headway::Tensor;
using headway::TrainingOptions;
using namespace headway_test;

std::unique_ptr<Optimizer> sgd(const TinyModel& model) {
  return std::make_unique<headway::Sgd>(model, headway::SgdOptions{.momentum = 0.9, .weight_decay = 0.1});
}

// Biases do not decay and move faster.
std::unique_ptr<Optimizer> in_groups(const TinyModel& model) {
  ParameterGroup matrices, vectors{.parameters = {}, .weight_decay = 0.0, .learning_rate_factor = 3.0};
  for (const NamedTensor& parameter : model.named_parameters()) {
    (parameter.tensor.rank() > 1 ? matrices : vectors).parameters.push_back(parameter);
  }
  return std::make_unique<headway::Adam>(std::vector<ParameterGroup>{matrices, vectors},
                                         AdamOptions{.weight_decay = 0.2});
}

TEST(TrainRanks, OnePartEachGivesTheBitsOfOneRankWithAsManyParts) {
  for (const int ranks : {2, 3, 4, 8}) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      for (const auto& optimizer :
           {RankRun().optimizer, decltype(RankRun().optimizer)(sgd), decltype(RankRun().optimizer)(in_groups)}) {
        SCOPED_TRACE(ranks);
        RankRun run{.ranks = ranks, .tiny = {.width = 5, .dtype = dtype}};
        run.optimizer = optimizer;
        const std::vector<RankOutcome> all = outcomes(run);
        expect_ranks_agree(all);
        const RankOutcome one = alone(run, ranks);
        expect_same_state(all[0].module, one.module);
        expect_same_state(all[0].optimizer, one.optimizer);
        for (std::size_t i = 0; i < one.reports.size(); ++i) {
          EXPECT_EQ(all[0].reports[i].loss, one.reports[i].loss);
          EXPECT_NEAR(all[0].reports[i].gradient_norm, one.reports[i].gradient_norm, 1e-13);
          ASSERT_EQ(all[0].reports[i].layers.size(), one.reports[i].layers.size());
          for (std::size_t layer = 0; layer < one.reports[i].layers.size(); ++layer) {
            EXPECT_EQ(all[0].reports[i].layers[layer].name, one.reports[i].layers[layer].name);
            EXPECT_NEAR(all[0].reports[i].layers[layer].norm, one.reports[i].layers[layer].norm, 1e-13);
          }
        }
        EXPECT_EQ(one.reports[0].ranks, 1);
        EXPECT_EQ(all[0].reports[0].ranks, ranks);
        EXPECT_GT(all[0].reports[0].peak_bytes, 1 << 20);
        EXPECT_GE(all[0].reports[0].waiting, 0.0);
        EXPECT_LE(all[0].reports[0].waiting, 1.0);
        EXPECT_GT(all[0].reports[0].tokens_per_second, 0.0);
      }
    }
  }
}

TEST(TrainRanks, SeveralPartsEachAgreeWithinRounding) {
  RankRun run{.ranks = 2, .tiny = {.width = 16}};
  run.options.accumulate = 3;
  run.options.clip_norm = 0.05;
  const std::vector<RankOutcome> all = outcomes(run);
  expect_ranks_agree(all);
  const RankOutcome one = alone(run, 6);
  EXPECT_GT(one.reports[0].gradient_norm, run.options.clip_norm);
  expect_near_state(all[0].module, one.module, 1e-5);
  expect_near_state(all[0].optimizer, one.optimizer, 1e-5);
  EXPECT_NEAR(all[0].reports[5].gradient_norm, one.reports[5].gradient_norm, 1e-6);
}

TEST(TrainRanks, PartsAndTheirSeedsAreThoseOfTheWhole) {
  using Part = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::uint64_t>;
  const auto parts_of = [](int ranks, std::int64_t accumulate) {
    std::mutex mutex;
    std::set<Part> parts;
    RankRun run{.ranks = ranks};
    run.options.accumulate = accumulate;
    run.loss = [&](const TinyModel& model, const BatchPosition& position, int rank) {
      EXPECT_EQ(position.part / accumulate, rank);
      const std::lock_guard lock(mutex);
      parts.emplace(position.step, position.part, position.index, headway::random_state().seed);
      return model(position);
    };
    outcomes(run);
    return parts;
  };
  headway::set_random_state({.seed = 5, .drawn = 3});
  const std::set<Part> one = parts_of(1, 4);
  EXPECT_EQ(one.size(), 24U);
  EXPECT_EQ(parts_of(2, 2), one);
  EXPECT_EQ(parts_of(4, 1), one);
  EXPECT_EQ(headway::random_state().seed, 5U);
  EXPECT_EQ(headway::random_state().drawn, 3U);
}

TEST(TrainRanks, ClippingIsByTheNormOfTheWholeGradient) {
  RankRun run{.ranks = 3};
  run.options.clip_norm = 0.01;
  run.optimizer = [](const TinyModel& model) { return std::make_unique<headway::Sgd>(model); };
  const std::vector<RankOutcome> all = outcomes(run);
  expect_ranks_agree(all);
  const RankOutcome one = alone(run, 3);
  EXPECT_GT(one.reports[0].gradient_norm, 0.1);
  expect_near_state(all[0].module, one.module, 1e-6);
  run.options.clip_norm = 0.0;
  EXPECT_FALSE(near(outcomes(run)[0].module.at("layers.0.weight"), one.module.at("layers.0.weight"), 1e-3));
}

TEST(TrainRanks, SixteenBitParametersHaveSharedMasters) {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    RankRun run{.ranks = 3, .tiny = {.width = 7, .dtype = dtype}};
    const std::vector<RankOutcome> all = outcomes(run);
    expect_ranks_agree(all);
    const RankOutcome one = alone(run, 3);
    EXPECT_TRUE(all[0].optimizer.contains("layers.0.weight.master"));
    EXPECT_EQ(all[0].masters.at("layers.0.weight").dtype(), DType::float32);
    expect_near_state(all[0].masters, one.masters, 0.05);
    for (const auto& [name, master] : all[0].masters) {
      EXPECT_TRUE(same_bits(master.to(dtype), all[0].module.at(name))) << name;
    }
  }
}

TEST(TrainRanks, LoadedMastersAreSharedOut) {
  headway::StateDict wanted;
  for (const NamedTensor& parameter : TinyModel({.width = 7}).named_parameters())
    wanted[parameter.name] = parameter.tensor;
  RankRun run{.ranks = 3, .tiny = {.width = 7, .dtype = DType::bfloat16}};
  run.options.steps = 1;
  run.loss = [](const TinyModel& model, const BatchPosition& position, int) {
    // The first step has no gradient but zeros, and no weight decay: the masters stay.
    return BatchLoss{.loss = headway::scale(model.loss(position.index), 0.0), .tokens = 1};
  };
  run.optimizer = [&wanted](const TinyModel& model) {
    auto optimizer = std::make_unique<headway::Adam>(model);
    optimizer->load_master_weights(wanted);
    return optimizer;
  };
  expect_same_state(outcomes(run)[0].masters, wanted);
}

// Parameters that are used always, never, on some ranks, twice, and not trained.
class Odd : public headway::Module {
 public:
  Odd() {
    for (const char* name : {"always", "never", "sometimes", "twice", "frozen", "later"}) {
      parameters_[name] = add_parameter(name, Tensor::randn({3, 5}, parameters_.size() + 1));
    }
    add_parameter("tied", parameters_.at("twice"));
    parameters_.at("frozen").get().detach();
    Tensor(parameters_.at("frozen").get()).set_requires_grad(false);
  }
  BatchLoss operator()(const BatchPosition& position) const {
    const auto of = [this](const char* name) { return parameters_.at(name).get(); };
    const Tensor x = Tensor::randn({3, 5}, static_cast<std::uint64_t>(position.index) + 50);
    Tensor y = x * of("always") * of("twice") + of("twice") * of("frozen") + of("later");
    if (position.index % 3 == 1) y = y + of("sometimes");
    return {.loss = headway::mean(y * y), .tokens = 15};
  }
  std::map<std::string, headway::Parameter> parameters_;
};

TEST(TrainRanks, UnusedFrozenAndTiedParameters) {
  std::vector<headway::StateDict> modules, states;
  for (const int ranks : {1, 2, 4}) {
    headway::run_ranks(ranks, [&](const Communicator& all) {
      const Odd model;
      headway::AdamW optimizer(model);
      Tensor(model.parameters_.at("later").get()).set_requires_grad(false);  // frozen after the optimizer was made
      TrainingOptions options{.steps = 5, .accumulate = 4 / ranks, .ranks = all, .bucket_bytes = 100};
      headway::train(model, optimizer, headway::constant_schedule(0.01), model, options);
      const headway::StateDict state = copied(optimizer.state_dict());
      if (all.rank() != 0) return;
      modules.push_back(copied(model.state_dict()));
      states.push_back(state);
    });
  }
  for (const std::size_t run : {1, 2}) {
    expect_near_state(modules[run], modules[0], 1e-6);
    expect_near_state(states[run], states[0], 1e-6);
  }
  const headway::StateDict before = Odd().state_dict();
  for (const char* name : {"never", "frozen", "later"})
    EXPECT_TRUE(same_bits(modules[2].at(name), before.at(name))) << name;
  EXPECT_EQ(states[2].at("never.step").item(), 0.0);
  EXPECT_EQ(states[2].at("sometimes.step").item(), 5.0);
  EXPECT_TRUE(same_bits(modules[2].at("tied"), modules[2].at("twice")));
}

// x, whose gradient will be NaN.
Tensor poisoned(const Tensor& x) {
  const Tensor y = x.detach().clone();
  headway::internal::record("poison", {x}, {y}, [](headway::internal::BackwardCall& call) {
    return headway::internal::Tensors{Tensor::full(call.d_output().shape(), std::nan(""), call.d_output().dtype())};
  });
  return y;
}

TEST(TrainRanks, AStepThatOneRankCannotTakeIsSkippedByAll) {
  for (const bool by_loss : {false, true}) {
    RankRun run{.ranks = 3};
    run.loss = [by_loss](const TinyModel& model, const BatchPosition& position, int rank) {
      BatchLoss loss = model(position);
      if (position.step != 3 || rank != 1) return loss;
      loss.loss = by_loss ? headway::scale(loss.loss, INFINITY) : poisoned(loss.loss);
      return loss;
    };
    const std::vector<RankOutcome> all = outcomes(run);
    expect_ranks_agree(all);
    for (const RankOutcome& outcome : all) {
      EXPECT_EQ(outcome.training.skipped_steps, 1);
      EXPECT_TRUE(outcome.reports[2].skipped);
      EXPECT_EQ(outcome.reports[2].bad_gradient, "layers.1.bias");
      EXPECT_EQ(outcome.optimizer.at("steps").item(), 5.0);
    }
    run.ranks = 1;
    run.options.accumulate = 3;
    run.loss = [](const TinyModel& model, const BatchPosition& position, int) {
      BatchLoss loss = model(position);
      if (position.step == 3 && position.part == 1) loss.loss = poisoned(loss.loss);
      return loss;
    };
    expect_same_state(all[0].module, outcomes(run)[0].module);
  }
}

TEST(TrainRanks, TheRunEndsAfterTooManySkippedSteps) {
  RankRun run{.ranks = 2};
  run.options.max_skipped_steps = 2;
  run.loss = [](const TinyModel& model, const BatchPosition& position, int rank) {
    BatchLoss loss = model(position);
    if (rank == 1) loss.loss = poisoned(loss.loss);
    return loss;
  };
  EXPECT_PRED2(contains, message_of([&] { outcomes(run); }), "2 steps in a row could not be taken");
}

TEST(TrainRanks, EveryRankKeepsTheStateOfItsShareAlone) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    std::vector<std::int64_t> kept(4);
    std::int64_t whole = 0;
    headway::run_ranks(4, [&](const Communicator& ranks) {
      const TinyModel model({.width = 1000, .dtype = dtype});
      headway::AdamW optimizer(model);
      EXPECT_FALSE(headway::internal::OptimizerAccess::state(optimizer).allocated) << "whole moments were made";
      TrainingOptions options{.steps = 2, .ranks = ranks, .bucket_bytes = 4096};
      headway::train(model, optimizer, headway::constant_schedule(0.01), model, options);
      std::int64_t elements = 0;
      for (const auto& entry : headway::internal::state_entries(optimizer)) {
        if (entry.is_shared()) elements += entry.here.element_count();
      }
      kept[static_cast<std::size_t>(ranks.rank())] = elements;
      if (ranks.rank() == 0) whole = model.parameter_count() * (dtype == DType::float32 ? 2 : 3);
    });
    std::int64_t sum = 0;
    for (const std::int64_t elements : kept) {
      sum += elements;
      EXPECT_NEAR(static_cast<double>(elements), static_cast<double>(whole) / 4, 60.0);
    }
    EXPECT_EQ(sum, whole);
  }
}

TEST(TrainRanks, AStepSendsTwiceTheOthersShareOfTheParameters) {
  const auto sent_in = [](std::int64_t steps, int ranks) {
    RankRun run{.ranks = ranks, .tiny = {.width = 4000}};
    run.options.steps = steps;
    run.options.bucket_bytes = 1 << 14;
    std::int64_t bytes = 0;
    const auto count = [&bytes](const std::vector<RankOutcome>& all) {
      for (const RankOutcome& outcome : all) bytes += outcome.counts.bytes_sent;
    };
    count(outcomes(run));
    return bytes;
  };
  for (const int ranks : {2, 4}) {
    const std::int64_t step = sent_in(3, ranks) - sent_in(2, ranks);
    const std::int64_t parameters = TinyModel({.width = 4000}).parameter_count();
    // Of every rank: the sums of the others' shares, its own share to the others; 4 numbers, the loss, and two for each
    // of four parameters; whether it wants to stop.
    const std::int64_t expected = (ranks - 1) * (2 * parameters * 4 + ranks * 8 * (4 + 1 + 2 * 4) + ranks * 8);
    EXPECT_EQ(step, expected) << ranks;
  }
}

TEST(TrainRanks, SumsBeginWhileTheBackwardStillRuns) {
  // A parameter is used first and last in the forward; what is between them is complete before the pass is over.
  const Tensor first = Tensor::randn({4}, 1).set_requires_grad(), second = Tensor::randn({4}, 2).set_requires_grad();
  const Tensor unused = Tensor::randn({4}, 3).set_requires_grad();
  std::vector<std::string> events;
  const auto probe = [&events](const Tensor& x, const char* name) {
    const Tensor y = x.detach().clone();
    headway::internal::record("probe", {x}, {y}, [&events, name](headway::internal::BackwardCall& call) {
      events.push_back(name);
      return headway::internal::Tensors{call.d_output()};
    });
    return y;
  };
  const Tensor a = probe(headway::mean(first * first), "early"), b = a * second;
  const Tensor loss = headway::mean(b * probe(second, "second again") + b * first);
  {
    const headway::internal::GradientWatch watch({first, second, unused}, [&](std::size_t leaf) {
      events.push_back("complete " + std::to_string(leaf));
      EXPECT_TRUE(leaf != 1 || second.grad().defined());
    });
    loss.backward();
  }
  EXPECT_EQ(events, (std::vector<std::string>{"complete 2", "second again", "complete 1", "early", "complete 0"}));
  EXPECT_TRUE(first.grad().defined());
}

}  // namespace
