// What the example programs share: their arguments, and a training run that can be killed and resumed.
#pragma once

#include <headway/headway.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace example {

// "COMMAND FILE... --name value --flag": the command, the files in order, options by name. An option without a value is
// a flag.
class Arguments {
 public:
  Arguments(int count, char** words) {
    if (count > 1) command_ = words[1];
    for (int i = 2; i < count; ++i) {
      const std::string_view word = words[i];
      if (!word.starts_with("--")) {
        files_.emplace_back(word);
        continue;
      }
      const bool has_value = i + 1 < count && !std::string_view(words[i + 1]).starts_with("--");
      options_[std::string(word.substr(2))] = has_value ? words[++i] : "";
    }
  }

  const std::string& command() const { return command_; }
  const std::vector<std::string>& files() const { return files_; }

  std::string text(const std::string& name, const std::string& otherwise) {
    asked_.insert(name);
    const auto found = options_.find(name);
    return found == options_.end() ? otherwise : found->second;
  }
  bool flag(const std::string& name) {
    asked_.insert(name);
    return options_.contains(name);
  }
  std::int64_t integer(const std::string& name, std::int64_t otherwise) {
    return number<std::int64_t>(name, otherwise, [](const std::string& value, std::size_t* end) {
      return static_cast<std::int64_t>(std::stoll(value, end));
    });
  }
  double real(const std::string& name, double otherwise) {
    return number<double>(name, otherwise,
                          [](const std::string& value, std::size_t* end) { return std::stod(value, end); });
  }
  // Throws where an option was given that nobody asked for.
  void check_all_used() const {
    for (const auto& [name, value] : options_) {
      if (!asked_.contains(name)) throw headway::Error("there is no option --" + name);
    }
  }

 private:
  template <typename Number, typename Read>
  Number number(const std::string& name, Number otherwise, const Read& read) {
    const std::string value = text(name, "");
    if (!options_.contains(name)) return otherwise;
    std::size_t end = 0;
    try {
      const Number result = read(value, &end);
      if (end == value.size()) return result;
    } catch (const std::exception&) {  // reported below
    }
    throw headway::Error("--" + name + " is \"" + value + "\", expected a number");
  }

  std::string command_;
  std::vector<std::string> files_;
  std::map<std::string, std::string> options_;
  std::set<std::string> asked_;
};

// The settings that all examples have as options of their `train` command.
struct TrainingRun {
  std::filesystem::path output = "model";  // checkpoints are in output/training
  std::int64_t steps = 1000;
  double learning_rate = 1e-3;  // the peak; the first twentieth of the steps leads up to it, then it falls to 0
  double weight_decay = 0.01;
  std::uint64_t seed = 1;
  std::int64_t checkpoint_every = 500;  // steps
  bool resume = false;                  // continue from the newest checkpoint

  // Reads --steps, --learning-rate, --weight-decay, --seed, --checkpoint-every, --resume and --output over the
  // example's own defaults.
  void read(Arguments& arguments) {
    output = arguments.text("output", output.string());
    steps = arguments.integer("steps", steps);
    learning_rate = arguments.real("learning-rate", learning_rate);
    weight_decay = arguments.real("weight-decay", weight_decay);
    seed = static_cast<std::uint64_t>(arguments.integer("seed", static_cast<std::int64_t>(seed)));
    checkpoint_every = arguments.integer("checkpoint-every", checkpoint_every);
    resume = arguments.flag("resume");
  }
};

// Minimises `loss_of`, which makes its batch from BatchPosition::index and the seed alone, so that a run that was
// killed and resumed ends with the same bits. Matrices decay; biases, norms and vectors do not.
inline headway::TrainingReport train(const headway::Module& model, const TrainingRun& run,
                                     const std::function<headway::BatchLoss(const headway::BatchPosition&)>& loss_of) {
  headway::ParameterGroup matrices, others = {.weight_decay = 0.0};
  for (const headway::NamedTensor& parameter : model.named_parameters()) {
    (parameter.tensor.rank() > 1 ? matrices : others).parameters.push_back(parameter);
  }
  headway::AdamW optimizer({matrices, others},
                           {.learning_rate = run.learning_rate, .beta2 = 0.98, .weight_decay = run.weight_decay});
  const headway::Schedule schedule = headway::cosine_schedule(
      {.peak = run.learning_rate, .warmup_steps = run.steps / 20, .steps = run.steps, .final_rate = 0.0});
  return headway::train(model, optimizer, schedule, loss_of,
                        {.steps = run.steps,
                         .clip_norm = 1.0,
                         .seed = run.seed,
                         .directory = run.output / "training",
                         .checkpoint_every = run.checkpoint_every,
                         .keep_checkpoints = 2,
                         .resume = run.resume,
                         .log = run.output / "training" / "log.jsonl",
                         .progress = &std::cerr});
}

// Runs the function and reports an error in one line, as programs do.
inline int run(const std::function<int()>& main) {
  try {
    return main();
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace example
