// train(): the loop with checkpoints that resume to the same bits.
#include "headway/training.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <exception>
#include <iostream>

#include "bindings/arrays.h"
#include "bindings/lock.h"

namespace headway::python {
namespace {

using namespace nb::literals;

nb::dict to_dict(const StepReport& report) {
  nb::dict layers;
  for (const NamedNorm& layer : report.layers) layers[layer.name.c_str()] = layer.norm;
  nb::dict result;
  result["step"] = report.step;
  result["loss"] = report.loss;
  result["learning_rate"] = report.learning_rate;
  result["gradient_norm"] = report.gradient_norm;
  result["layers"] = layers;
  result["tokens_per_second"] = report.tokens_per_second;
  result["seconds"] = report.seconds;
  result["seconds_left"] = report.seconds_left;
  result["skipped"] = report.skipped;
  result["bad_gradient"] = report.bad_gradient;
  result["ranks"] = report.ranks;
  result["waiting"] = report.waiting;
  result["peak_bytes"] = report.peak_bytes;
  return result;
}

nb::dict to_dict(const TrainingReport& report) {
  nb::dict result;
  result["first_step"] = report.first_step;
  result["last_step"] = report.last_step;
  result["skipped_steps"] = report.skipped_steps;
  result["loss"] = report.loss;
  result["stopped"] = report.stopped;
  result["unreadable"] = report.unreadable;
  return result;
}

BatchLoss read_loss(const nb::object& value) {
  constexpr const char* kResult = "train: what loss_of gave";
  constexpr const char* kExpected = "a headway.Tensor, or (headway.Tensor, tokens)";
  const bool is_pair = nb::isinstance<nb::tuple>(value);
  if (is_pair && nb::len(value) != 2) refuse(kResult, value, kExpected);
  const nb::object loss = is_pair ? nb::object(value[0]) : value;
  const Tensor* tensor = nullptr;
  if (!nb::try_cast(loss, tensor, false) || tensor == nullptr) refuse(kResult, loss, kExpected);
  BatchLoss result = {.loss = *tensor};
  if (is_pair) result.tokens = read_integer("train: tokens", value[1]);
  return result;
}

using Function = nb::handle;
using Path = std::optional<std::filesystem::path>;

struct Functions {
  Function schedule, loss_of, on_step, should_stop;
};

nb::dict run(const Module& module, Optimizer& optimizer, const Functions& given, TrainingOptions options) {
  const nb::object schedule = read_function("train: schedule", given.schedule);
  const nb::object loss_of = read_function("train: loss_of", given.loss_of);
  const nb::object on_step = given.on_step.is_none() ? nb::object() : read_function("train: on_step", given.on_step);
  const nb::object should_stop =
      given.should_stop.is_none() ? nb::object() : read_function("train: should_stop", given.should_stop);
  // A KeyboardInterrupt, which Python raises in whichever function runs then: it stops the run after the step, and is
  // raised when the checkpoint is written. In loss_of it ends the step, of which nothing is kept.
  std::exception_ptr interrupt;
  // What the function returns; nothing where it was interrupted.
  const auto uninterrupted = [&interrupt](const auto& call) -> nb::object {
    try {
      return call();
    } catch (const nb::python_error& error) {
      if (!error.matches(PyExc_KeyboardInterrupt)) throw;
      interrupt = std::current_exception();
      return {};
    }
  };
  const auto look_for_signals = [&] {
    uninterrupted([] {
      raise_signals();
      return nb::object();
    });
  };
  options.on_step = [&](const StepReport& report) {
    if (!on_step.is_valid()) return;
    const LockHeld held;
    look_for_signals();  // else an interrupt would take the place of the call
    uninterrupted([&] { return call_python(on_step, to_dict(report)); });
  };
  options.should_stop = [&] {
    const LockHeld held;
    look_for_signals();
    if (interrupt || !should_stop.is_valid()) return interrupt != nullptr;
    const nb::object flag = uninterrupted([&] { return call_python(should_stop); });
    return !flag.is_valid() || read_flag("train: what should_stop returned", flag);
  };
  const auto rate = [&](std::int64_t step) {
    const LockHeld held;
    nb::object number = uninterrupted([&] { return call_python(schedule, step); });
    if (!number.is_valid()) number = call_python(schedule, step);
    return read_number("train: what schedule returned", number);
  };
  const auto loss = [&](const BatchPosition& position) {
    const LockHeld held;
    return read_loss(call_python(loss_of, position.step, position.part, position.index));
  };
  const TrainingReport report = [&] {
    const LockReleased released;  // ranks may be threads of this process, and wait for each other
    return train(module, optimizer, rate, loss, options);
  }();
  if (interrupt) std::rethrow_exception(interrupt);
  return to_dict(report);
}

}  // namespace

void bind_training(nb::module_& module) {
  module.def(
      "train",
      [](const Module& model, Optimizer& optimizer, Function schedule, Function loss_of, std::int64_t steps,
         std::int64_t accumulate, double clip_norm, std::uint64_t seed, std::int64_t max_skipped_steps,
         const Path& directory, std::int64_t checkpoint_every, std::int64_t keep_checkpoints, bool resume,
         const Path& log, bool progress, Function on_step, Function should_stop, const Communicator* ranks) {
        return run(model, optimizer, {schedule, loss_of, on_step, should_stop},
                   {.steps = steps,
                    .accumulate = accumulate,
                    .clip_norm = clip_norm,
                    .seed = seed,
                    .max_skipped_steps = max_skipped_steps,
                    .directory = directory.value_or(""),
                    .checkpoint_every = checkpoint_every,
                    .keep_checkpoints = keep_checkpoints,
                    .resume = resume,
                    .log = log.value_or(""),
                    .progress = progress ? &std::cerr : nullptr,
                    .ranks = ranks ? *ranks : Communicator()});
      },
      "module"_a, "optimizer"_a, "schedule"_a, "loss_of"_a, nb::kw_only(), "steps"_a, "accumulate"_a = 1,
      "clip_norm"_a = 0.0, "seed"_a = 0, "max_skipped_steps"_a = 10, "directory"_a.none() = nb::none(),
      "checkpoint_every"_a = 1000, "keep_checkpoints"_a = 3, "resume"_a = true, "log"_a.none() = nb::none(),
      "progress"_a = false, "on_step"_a.none() = nb::none(), "should_stop"_a.none() = nb::none(),
      "ranks"_a.none() = nb::none(),
      "Minimises loss_of(step, part, index), which gives a Tensor or (Tensor, tokens), and gives a report. With a "
      "directory, checkpoints are written there, and a run that was killed goes on to the same bits; Ctrl-C and errors "
      "of loss_of leave one of the last step. With the ranks of a Communicator, every rank calls it with its own "
      "module; each computes its batches, and their gradients are summed.");
}

}  // namespace headway::python
