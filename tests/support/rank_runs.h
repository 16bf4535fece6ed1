// Training of a tiny model on threads as ranks, with what every rank has at the end.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "headway/communicator.h"
#include "headway/optimizer.h"
#include "headway/training.h"
#include "support/bits.h"
#include "support/tiny_model.h"

namespace headway_test {

struct RankRun {
  int ranks = 1;
  TinyOptions tiny = {.width = 5};
  headway::Device device = headway::Device::cpu();
  // Changes the options of one rank.
  std::function<void(int rank, headway::TrainingOptions& options)> change = {};
  std::function<std::unique_ptr<headway::Optimizer>(const TinyModel& model)> optimizer = [](const TinyModel& model) {
    return std::make_unique<headway::AdamW>(model, headway::AdamOptions{.amsgrad = true});
  };
  // The loss on one rank; default: the model's.
  std::function<headway::BatchLoss(const TinyModel& model, const headway::BatchPosition& position, int rank)> loss = {};
  headway::TrainingOptions options = {.steps = 6, .seed = 11, .bucket_bytes = 64};
};

struct RankOutcome {
  headway::StateDict module;
  headway::StateDict optimizer;
  headway::StateDict masters;
  std::vector<headway::StepReport> reports;
  headway::TrainingReport training;
  headway::TransferCounts counts;
};

inline headway::StateDict copied(const headway::StateDict& state) {
  headway::StateDict copy;
  for (const auto& [name, tensor] : state) copy[name] = tensor.clone().to(headway::Device::cpu());
  return copy;
}

// What every rank has at the end. Batches follow from their index alone.
inline std::vector<RankOutcome> outcomes(const RankRun& run) {
  std::vector<RankOutcome> all(static_cast<std::size_t>(run.ranks));
  headway::run_ranks(run.ranks, [&](const headway::Communicator& ranks) {
    RankOutcome& outcome = all[static_cast<std::size_t>(ranks.rank())];
    const TinyModel model(run.tiny);
    model.to(run.device);
    const std::unique_ptr<headway::Optimizer> optimizer = run.optimizer(model);
    headway::TrainingOptions options = run.options;
    options.ranks = ranks;
    options.on_step = [&](const headway::StepReport& report) { outcome.reports.push_back(report); };
    if (run.change) run.change(ranks.rank(), options);
    const auto loss_of = [&](const headway::BatchPosition& position) {
      return run.loss ? run.loss(model, position, ranks.rank()) : model(position);
    };
    const auto schedule = headway::cosine_schedule({.peak = 0.02, .warmup_steps = 2, .steps = 40});
    outcome.training = headway::train(model, *optimizer, schedule, loss_of, options);
    outcome.counts = ranks.counts();
    outcome.module = copied(model.state_dict());
    outcome.optimizer = copied(optimizer->state_dict());
    outcome.masters = copied(optimizer->master_weights());
  });
  return all;
}

inline void expect_same_state(const headway::StateDict& a, const headway::StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(same_bits(tensor, b.at(name))) << name;
}

inline void expect_near_state(const headway::StateDict& a, const headway::StateDict& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(near(tensor, b.at(name), tolerance)) << name;
}

// All ranks have the same at the end.
inline void expect_ranks_agree(const std::vector<RankOutcome>& all) {
  for (const RankOutcome& other : all) {
    expect_same_state(other.module, all[0].module);
    expect_same_state(other.optimizer, all[0].optimizer);
    expect_same_state(other.masters, all[0].masters);
    EXPECT_EQ(other.training.last_step, all[0].training.last_step);
    ASSERT_EQ(other.reports.size(), all[0].reports.size());
    for (std::size_t i = 0; i < other.reports.size(); ++i) {
      EXPECT_EQ(other.reports[i].skipped, all[0].reports[i].skipped);
      EXPECT_TRUE(other.reports[i].skipped || other.reports[i].gradient_norm == all[0].reports[i].gradient_norm);
      EXPECT_TRUE(other.reports[i].skipped || other.reports[i].loss == all[0].reports[i].loss);
    }
  }
}

// What one rank computes with the same number of parts in a step.
inline RankOutcome alone(RankRun run, std::int64_t parts) {
  run.ranks = 1;
  run.options.accumulate = parts;
  return outcomes(run).front();
}

}  // namespace headway_test
