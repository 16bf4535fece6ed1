// The training loop: steps, accumulation, clipping, skipped steps, resuming to the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <sstream>

#include "core/autograd.h"
#include "headway/training.h"
#include "support/bits.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/tiny_model.h"

namespace {

using headway::BatchLoss;
using headway::BatchPosition;
using headway::DType;
using headway::StepReport;
using headway::Tensor;
using headway::TrainingOptions;
using headway::TrainingReport;
using headway_test::message_of;
using headway_test::read_bytes;
using headway_test::same_bits;
using headway_test::TemporaryDirectory;
using headway_test::TinyModel;

const headway::Schedule kSchedule = headway::cosine_schedule({.peak = 0.02, .warmup_steps = 5, .steps = 40});

void expect_same_state(const headway::StateDict& a, const headway::StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) EXPECT_TRUE(same_bits(tensor, b.at(name))) << name;
}

headway::StateDict copy_of(const headway::StateDict& state) {
  headway::StateDict copy;
  for (const auto& [name, tensor] : state) copy[name] = tensor.clone();
  return copy;
}

// x, whose gradient will be NaN.
Tensor poisoned(const Tensor& x) {
  const Tensor y = x.detach().clone();
  headway::internal::record("poison", {x}, {y}, [](headway::internal::BackwardCall& call) {
    return headway::internal::Tensors{Tensor::full(call.d_output().shape(), std::nan(""), call.d_output().dtype())};
  });
  return y;
}

TEST(TrainLoop, Learns) {
  const TinyModel model({.dropout = 0.0});
  model.eval();
  headway::AdamW optimizer(model, {});
  std::vector<StepReport> reports;
  TrainingOptions options{.steps = 40};
  options.on_step = [&](const StepReport& report) { reports.push_back(report); };
  const TrainingReport report = headway::train(model, optimizer, kSchedule, model, options);
  EXPECT_TRUE(model.is_training());
  EXPECT_EQ(report.first_step, 1);
  EXPECT_EQ(report.last_step, 40);
  EXPECT_EQ(report.skipped_steps, 0);
  EXPECT_FALSE(report.stopped);
  ASSERT_EQ(reports.size(), 40u);
  EXPECT_EQ(report.loss, reports.back().loss);
  EXPECT_LT(report.loss, 0.5 * reports.front().loss);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    EXPECT_EQ(reports[i].step, static_cast<std::int64_t>(i) + 1);
    EXPECT_EQ(reports[i].learning_rate, kSchedule(reports[i].step));
    EXPECT_GT(reports[i].tokens_per_second, 0.0);
    ASSERT_EQ(reports[i].layers.size(), 2u);
    EXPECT_EQ(reports[i].layers[1].name, "layers.1");
    EXPECT_NEAR(std::hypot(reports[i].layers[0].norm, reports[i].layers[1].norm), reports[i].gradient_norm, 1e-12);
  }
  EXPECT_EQ(reports.back().seconds_left, 0.0);
  EXPECT_EQ(optimizer.steps(), 40);
}

TEST(TrainLoop, AccumulationIsTheMeanGradient) {
  const headway_test::TinyOptions tiny{.dropout = 0.0, .dtype = DType::float64};
  const TinyModel model(tiny), reference(tiny);
  headway::Sgd optimizer(model, {}), plain(reference, {});
  std::vector<std::int64_t> indices;
  const auto loss_of = [&](const BatchPosition& position) {
    EXPECT_EQ(position.index, (position.step - 1) * 3 + position.part);
    indices.push_back(position.index);
    return model(position);
  };
  const TrainingReport report =
      headway::train(model, optimizer, headway::constant_schedule(0.1), loss_of, {.steps = 2, .accumulate = 3});
  EXPECT_EQ(indices, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));

  plain.set_learning_rate(0.1);
  double mean = 0.0;
  for (std::int64_t step = 0; step < 2; ++step) {
    plain.zero_grad();
    const Tensor loss = reference.loss(3 * step) + reference.loss(3 * step + 1) + reference.loss(3 * step + 2);
    mean = loss.item() / 3;
    headway::scale(loss, 1.0 / 3).backward();
    plain.step();
  }
  EXPECT_NEAR(report.loss, mean, 1e-12);
  for (const auto& [name, tensor] : reference.state_dict()) {
    EXPECT_TRUE(headway_test::near(model.state_dict().at(name), tensor, 1e-13)) << name;
  }
}

TEST(TrainLoop, ClippingLimitsTheStep) {
  const TinyModel model({.dropout = 0.0, .dtype = DType::float64});
  headway::Sgd optimizer(model, {});
  const headway::StateDict before = copy_of(model.state_dict());
  double norm = 0.0;
  TrainingOptions options{.steps = 1, .clip_norm = 0.01};
  options.on_step = [&](const StepReport& report) { norm = report.gradient_norm; };
  headway::train(model, optimizer, headway::constant_schedule(1.0), model, options);
  double squares = 0.0;
  for (const auto& [name, tensor] : model.state_dict()) {
    for (const double d : (tensor - before.at(name)).to_vector()) squares += d * d;
  }
  EXPECT_GT(norm, 0.1);
  EXPECT_NEAR(std::sqrt(squares), 0.01, 1e-6);
}

TEST(TrainLoop, DropoutFollowsSeedStepAndPartAlone) {
  const auto seeds_of = [](std::uint64_t seed, std::int64_t accumulate) {
    const TinyModel model;
    headway::Sgd optimizer(model, {});
    std::vector<std::uint64_t> seeds;
    const auto loss_of = [&](const BatchPosition& position) {
      const headway::RandomState state = headway::random_state();
      EXPECT_EQ(state.drawn, 0u);
      seeds.push_back(state.seed);
      return model(position);
    };
    headway::train(model, optimizer, kSchedule, loss_of, {.steps = 4, .accumulate = accumulate, .seed = seed});
    return seeds;
  };
  headway::set_random_state({.seed = 5, .drawn = 3});
  const std::vector<std::uint64_t> first = seeds_of(1, 2);
  EXPECT_EQ(headway::random_state().seed, 5u);
  EXPECT_EQ(headway::random_state().drawn, 3u);
  EXPECT_EQ(first, seeds_of(1, 2));
  EXPECT_EQ(std::set<std::uint64_t>(first.begin(), first.end()).size(), 8u);
  EXPECT_EQ(seeds_of(1, 1)[1], first[2]);
  EXPECT_NE(seeds_of(2, 2)[0], first[0]);
}

// A run of 24 steps with everything that a checkpoint must hold; `steps` reports are added to `losses`.
struct SavedRun {
  TinyModel model{};
  headway::AdamW optimizer{model, {.amsgrad = true}};
  std::int64_t data_position = 0;
  TrainingOptions options{.steps = 24, .accumulate = 2, .clip_norm = 0.5, .seed = 11, .checkpoint_every = 5};

  explicit SavedRun(const std::filesystem::path& directory, const char* log = "log.jsonl") {
    options.directory = directory;
    options.log = directory / log;
    options.save_state = [this] { return std::to_string(data_position); };
    options.load_state = [this](const std::string& text) { data_position = std::stoll(text); };
  }
  // The batch comes from a position that the run keeps itself.
  BatchLoss loss_of() { return {.loss = model.loss(data_position++), .tokens = 8}; }
  TrainingReport train() {
    return headway::train(
        model, optimizer, kSchedule, [this](const BatchPosition&) { return loss_of(); }, options);
  }
};

// The log without the times.
std::vector<std::string> log_of(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::istringstream text(read_bytes(path));
  for (std::string line; std::getline(text, line);) {
    const std::size_t begin = line.find(", \"tokens_per_second\""), end = line.find(", \"skipped\"");
    lines.push_back(line.substr(0, begin) + line.substr(end));
  }
  return lines;
}

TEST(TrainLoop, AStoppedRunGoesOnToTheSameBits) {
  const TemporaryDirectory directory;
  SavedRun whole(directory / "whole");
  whole.train();
  ASSERT_EQ(log_of(directory / "whole" / "log.jsonl").size(), 24u);

  for (int stops = 0; stops < 3; ++stops) {
    SavedRun part(directory / "parts");
    part.model.first_.weight_.get().detach().fill(9.0);  // what it starts from does not matter after the first time
    if (stops == 0) part.model.load_state_dict(TinyModel().state_dict());
    int steps = 0;
    part.options.should_stop = [&steps] { return ++steps == 7; };
    const TrainingReport report = part.train();
    EXPECT_TRUE(report.stopped);
    EXPECT_EQ(report.first_step, stops * 7 + 1);
    EXPECT_EQ(report.last_step, stops * 7 + 7);
  }
  SavedRun last(directory / "parts");
  const TrainingReport report = last.train();
  EXPECT_FALSE(report.stopped);
  EXPECT_EQ(report.first_step, 22);
  EXPECT_EQ(log_of(directory / "parts" / "log.jsonl"), log_of(directory / "whole" / "log.jsonl"));
  expect_same_state(last.model.state_dict(), whole.model.state_dict());
  expect_same_state(last.optimizer.state_dict(), whole.optimizer.state_dict());
  EXPECT_EQ(last.data_position, 48);
  EXPECT_EQ(read_bytes(directory / "parts" / "step-00000024.safetensors"),
            read_bytes(directory / "whole" / "step-00000024.safetensors"));

  SavedRun finished(directory / "parts");
  const TrainingReport again = finished.train();
  EXPECT_EQ(again.last_step, 24);
  EXPECT_EQ(again.loss, report.loss);
  EXPECT_EQ(log_of(directory / "parts" / "log.jsonl").size(), 24u);
  expect_same_state(finished.model.state_dict(), whole.model.state_dict());
}

TEST(TrainLoop, ARunThatFailsBetweenCheckpointsGoesOnToTheSameBits) {
  const TemporaryDirectory directory;
  SavedRun whole(directory / "whole");
  whole.train();
  {
    SavedRun broken(directory / "parts");
    broken.options.on_step = [](const StepReport& report) {
      if (report.step == 13) throw std::runtime_error("pulled the plug");
    };
    EXPECT_THROW(broken.train(), std::runtime_error);
    EXPECT_EQ(log_of(directory / "parts" / "log.jsonl").size(), 13u);
  }
  const std::string newest = read_bytes(directory / "parts" / "step-00000010.safetensors");
  headway_test::write_bytes(directory / "parts" / "step-00000010.safetensors", newest.substr(0, newest.size() / 2));
  headway_test::write_bytes(directory / "parts" / ".headway-1-0.tmp", "left by a killed run");
  SavedRun rest(directory / "parts");
  std::ostringstream out;
  rest.options.progress = &out;
  const TrainingReport report = rest.train();
  EXPECT_EQ(report.first_step, 6);
  EXPECT_EQ(report.unreadable.size(), 1u);
  EXPECT_NE(out.str().find("unreadable: "), std::string::npos);
  EXPECT_NE(out.str().find("resumed after step 5\n"), std::string::npos);
  EXPECT_EQ(log_of(directory / "parts" / "log.jsonl"), log_of(directory / "whole" / "log.jsonl"));
  expect_same_state(rest.model.state_dict(), whole.model.state_dict());
  EXPECT_FALSE(std::filesystem::exists(directory / "parts" / ".headway-1-0.tmp"));
}

TEST(TrainLoop, ALossThatThrowsLeavesACheckpointOfTheLastStep) {
  for (const bool has_state : {false, true}) {
    const TemporaryDirectory directory;
    TrainingOptions options{.steps = 20, .directory = directory.path(), .checkpoint_every = 5};
    // The position in the data is ahead of the parameters then, so that an older checkpoint is the newest.
    if (has_state) options.save_state = [] { return std::string("13"); };
    const auto run = [&](std::int64_t broken_step) {
      const TinyModel model;
      headway::AdamW optimizer(model, {});
      const auto loss = [&](const BatchPosition& position) {
        if (position.step == broken_step) throw std::runtime_error("pulled the plug");
        return model(position);
      };
      const std::int64_t first = headway::train(model, optimizer, kSchedule, loss, options).first_step;
      return std::pair(first, copy_of(model.state_dict()));
    };
    EXPECT_THROW(run(13), std::runtime_error);
    const auto [first, resumed] = run(0);
    EXPECT_EQ(first, has_state ? 11 : 13);
    const TemporaryDirectory another;
    options.directory = another.path();
    expect_same_state(resumed, run(0).second);
  }
}

TEST(TrainLoop, ABadGradientSkipsTheStepAndIsNamed) {
  const TemporaryDirectory directory;
  const TinyModel model;
  headway::Adam optimizer(model, {});
  headway::StateDict before;
  std::vector<StepReport> reports;
  TrainingOptions options{.steps = 6, .directory = directory.path(), .log = directory / "log.csv"};
  options.on_step = [&](const StepReport& report) {
    reports.push_back(report);
    if (report.step == 2) {
      before = copy_of(model.state_dict());
      for (const auto& [name, tensor] : copy_of(optimizer.state_dict())) before["optimizer." + name] = tensor;
    }
    if (report.step == 4) {
      headway::StateDict now = model.state_dict();
      for (const auto& [name, tensor] : optimizer.state_dict()) now["optimizer." + name] = tensor;
      expect_same_state(before, now);
    }
  };
  const auto loss_of = [&](const BatchPosition& position) {
    BatchLoss batch = model(position);
    const Tensor zero = Tensor::zeros({});
    if (position.step == 3) batch.loss = batch.loss + zero * headway::sum(poisoned(model.first_.bias_.get()));
    if (position.step == 4) batch.loss = batch.loss + Tensor::full({}, std::numeric_limits<double>::infinity());
    return batch;
  };
  const TrainingReport report = headway::train(model, optimizer, kSchedule, loss_of, options);
  EXPECT_EQ(report.skipped_steps, 2);
  EXPECT_EQ(optimizer.steps(), 4);
  EXPECT_TRUE(reports[2].skipped && reports[3].skipped);
  EXPECT_FALSE(reports[1].skipped || reports[4].skipped);
  EXPECT_EQ(reports[2].bad_gradient, "layers.0.bias");
  EXPECT_TRUE(std::isfinite(reports[2].loss));
  EXPECT_EQ(reports[3].bad_gradient, "");
  EXPECT_TRUE(std::isinf(reports[3].loss));
  const std::string log = read_bytes(directory / "log.csv");
  EXPECT_NE(log.find(",1,layers.0.bias,nan,"), std::string::npos) << log;
  EXPECT_EQ(headway::load_checkpoint(directory.path())->skipped_steps, 2);
}

TEST(TrainLoop, TooManyBadGradientsEndTheRun) {
  const TemporaryDirectory directory;
  const TinyModel model;
  headway::Adam optimizer(model, {});
  TrainingOptions options{.steps = 50, .max_skipped_steps = 3, .directory = directory.path(), .checkpoint_every = 4};
  const auto loss_of = [&](const BatchPosition& position) {
    BatchLoss batch = model(position);
    if (position.step >= 6) batch.loss = batch.loss * std::nan("");
    return batch;
  };
  const std::string message = message_of([&] { headway::train(model, optimizer, kSchedule, loss_of, options); });
  EXPECT_NE(message.find("train: 3 steps in a row could not be taken; at step 8 the loss was nan"), std::string::npos)
      << message;
  EXPECT_NE(message.find("that of \"layers.1.bias\" is nearest to the output; the checkpoint of step 4 is whole"),
            std::string::npos)
      << message;
  EXPECT_EQ(headway::load_checkpoint(directory.path())->step, 4);
  EXPECT_EQ(optimizer.steps(), 5);
  for (const auto& [name, tensor] : model.state_dict()) {
    for (const double value : tensor.to_vector()) EXPECT_TRUE(std::isfinite(value)) << name;
  }
}

// Weights that became NaN are written once at most, and the run goes on from before.
TEST(TrainLoop, WeightsThatAreNotFiniteDoNotPushOutCheckpoints) {
  const TemporaryDirectory directory;
  TrainingOptions options{.steps = 20, .max_skipped_steps = 4, .directory = directory.path(), .checkpoint_every = 1};
  options.keep_checkpoints = 2;
  {
    const TinyModel model;
    headway::Adam optimizer(model, {});
    options.on_step = [&](const StepReport& report) {
      if (report.step == 5) model.first_.bias_.get().detach().fill(std::nan(""));
    };
    EXPECT_NE(message_of([&] { headway::train(model, optimizer, kSchedule, model, options); }).find("at step 9"),
              std::string::npos);
  }
  const TinyModel model;
  headway::Adam optimizer(model, {});
  options.on_step = {};
  const TrainingReport report = headway::train(model, optimizer, kSchedule, model, options);
  EXPECT_EQ(report.first_step, 5);
  EXPECT_EQ(report.last_step, 20);
  ASSERT_EQ(report.unreadable.size(), 1u);
  EXPECT_NE(report.unreadable[0].find("step-00000005.safetensors: \"layers.0.bias\" has numbers that are not finite"),
            std::string::npos)
      << report.unreadable[0];
}

TEST(TrainLoop, ACheckpointThatDoesNotFitChangesNothing) {
  const TemporaryDirectory directory;
  const TinyModel model;
  headway::Adam optimizer(model, {});
  TrainingOptions options{.steps = 2, .directory = directory.path()};
  headway::train(model, optimizer, kSchedule, model, options);

  const auto error = [&](const TinyModel& other, headway::Optimizer& with, const TrainingOptions& how) {
    const headway::StateDict before = copy_of(other.state_dict());
    const std::string message = message_of([&] { headway::train(other, with, kSchedule, other, how); });
    expect_same_state(before, other.state_dict());
    EXPECT_EQ(with.steps(), 0);
    return message;
  };
  const TinyModel wide({.width = 17}), doubles({.dtype = DType::float64}), same({.seed = 99});
  headway::Adam wide_adam(wide, {}), double_adam(doubles, {}), fresh(same, {});
  headway::Adam amsgrad(same, {.amsgrad = true});
  headway::Sgd sgd(same, {.momentum = 0.9});
  EXPECT_EQ(error(wide, wide_adam, options),
            "checkpoint: step 2 has \"layers.0.bias\" as float32[16], the module as float32[17]");
  EXPECT_EQ(error(doubles, double_adam, options),
            "checkpoint: step 2 has \"layers.0.bias\" as float32[16], the module as float64[16]");
  EXPECT_EQ(error(same, amsgrad, options),
            "checkpoint: step 2 has no \"layers.0.bias.max_exp_avg_sq\", which the optimizer has as float32[16]");
  EXPECT_EQ(error(same, sgd, options),
            "checkpoint: step 2 has no \"layers.0.bias.momentum_buffer\", which the optimizer has as float32[16]");
  TrainingOptions other_seed = options;
  other_seed.seed = 4;
  EXPECT_EQ(error(same, fresh, other_seed),
            "train: the checkpoint of step 2 was made with seed 0, the options' seed is 4");
  TrainingOptions anew = options;
  anew.resume = false;
  EXPECT_NE(error(same, fresh, anew).find("holds 1 checkpoints of another run"), std::string::npos);
}

TEST(TrainLoop, BadArgumentsAreNamed) {
  const TinyModel model;
  headway::Adam optimizer(model, {});
  const auto error = [&](const TrainingOptions& options) {
    return message_of([&] { headway::train(model, optimizer, kSchedule, model, options); });
  };
  EXPECT_EQ(error({}), "train: steps is 0, expected 1 or more");
  EXPECT_EQ(error({.steps = 1, .accumulate = 0}), "train: accumulate is 0, expected 1 or more");
  EXPECT_EQ(error({.steps = 1, .clip_norm = -1}), "train: clip_norm is -1, expected 0 (none) or more");
  EXPECT_EQ(error({.steps = 1, .max_skipped_steps = 0}), "train: max_skipped_steps is 0, expected 1 or more");
  EXPECT_EQ(error({.steps = 1, .checkpoint_every = 0}), "train: checkpoint_every is 0, expected 1 or more");
  EXPECT_EQ(error({.steps = 1, .keep_checkpoints = 0}), "train: keep_checkpoints is 0, expected 1 or more");
  EXPECT_NE(error({.steps = 1, .log = "log.txt"}).find("expected .jsonl or .csv"), std::string::npos);
  {
    const headway::NoGradGuard guard;
    EXPECT_EQ(error({.steps = 1}), "train: a NoGradGuard lives, so that nothing would be learnt");
  }
  const auto loss_error = [&](const Tensor& loss) {
    const auto loss_of = [&](const BatchPosition&) { return BatchLoss{.loss = loss}; };
    return message_of([&] { headway::train(model, optimizer, kSchedule, loss_of, {.steps = 1}); });
  };
  EXPECT_EQ(loss_error({}), "train: the loss of step 1 is undefined");
  EXPECT_EQ(loss_error(Tensor::zeros({2})), "train: the loss of step 1 is float32[2], expected one element");
  EXPECT_NE(loss_error(Tensor::zeros({1}).set_requires_grad()).find("none of the optimizer's 4 parameters"),
            std::string::npos);
  EXPECT_EQ(message_of([&] { headway::train(model, optimizer, {}, model, {.steps = 1}); }),
            "train: the schedule is empty");
  EXPECT_EQ(message_of([&] { headway::train(model, optimizer, kSchedule, {}, {.steps = 1}); }),
            "train: the loss function is empty");
  model.to(DType::float64);
  EXPECT_NE(error({.steps = 1}).find("make a new optimizer"), std::string::npos);
}

TEST(TrainLoop, OneDirectoryIsForOneRun) {
  const TemporaryDirectory directory;
  SavedRun outer(directory / "run"), inner(directory / "run");
  std::string message;
  outer.options.steps = 1;
  outer.options.on_step = [&](const StepReport&) { message = message_of([&] { inner.train(); }); };
  outer.train();
  EXPECT_NE(message.find("another run is writing its checkpoints there"), std::string::npos) << message;
}

TEST(TrainLoop, ADeviceTakesTheSameStepsAndSharesCheckpoints) {
  if (headway::cuda_device_count() == 0) GTEST_SKIP() << headway::describe_cuda();
  // Trains to step `middle` on one device, goes on from its checkpoint on another, and gives the weights.
  const auto trained = [](headway::Device first, headway::Device second, std::int64_t middle) {
    const TemporaryDirectory directory;
    const TinyModel model;
    for (const auto& [device, steps] : {std::pair(first, middle), std::pair(second, std::int64_t{12})}) {
      model.to(device);
      headway::AdamW optimizer(model, {});
      for (const auto& [name, moment] : optimizer.state_dict()) {
        EXPECT_EQ(moment.device(), name.ends_with("step") || name == "steps" ? headway::Device::cpu() : device) << name;
      }
      TrainingOptions options{.steps = steps, .accumulate = 2, .clip_norm = 1.0, .directory = directory.path()};
      EXPECT_EQ(headway::train(model, optimizer, kSchedule, model, options).last_step, steps);
      EXPECT_EQ(optimizer.steps(), steps);
    }
    return copy_of(model.state_dict());
  };
  const auto cpu = headway::Device::cpu(), cuda = headway::Device::cuda();
  const headway::StateDict expected = trained(cpu, cpu, 6);
  const headway::StateDict whole = trained(cuda, cuda, 12), resumed = trained(cuda, cuda, 5);
  for (const headway::StateDict& state : {trained(cuda, cpu, 6), trained(cpu, cuda, 6), whole}) {
    for (const auto& [name, tensor] : expected) {
      const std::vector<double> values = tensor.to_vector(), others = state.at(name).to_vector();
      for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(others[i], values[i], 2e-3) << name;
    }
  }
  for (const auto& [name, tensor] : whole) EXPECT_EQ(tensor.to_vector(), resumed.at(name).to_vector()) << name;
}

}  // namespace
