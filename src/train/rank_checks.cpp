// Comparing the ranks of a run.
#include "train/rank_checks.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "base/check.h"
#include "base/checksum.h"
#include "base/number_text.h"
#include "train/optimizer_shares.h"
#include "train/rank_runs.h"

namespace headway::inline v0::internal {
namespace {

// One line for everything that ranks must agree about.
std::string description_of(const Module& module, const Optimizer& optimizer, const TrainingOptions& options,
                           const std::vector<double>& learning_rates) {
  std::ostringstream text;
  text << "steps " << options.steps << "\naccumulate " << options.accumulate << "\ncontext_parallel "
       << options.context_parallel << "\nclip_norm " << number_text(options.clip_norm) << "\nseed " << options.seed
       << "\nmax_skipped_steps " << options.max_skipped_steps << "\ncheckpoint_every " << options.checkpoint_every
       << "\nbucket_bytes " << options.bucket_bytes << "\n"
       << (options.directory.empty() ? "no directory" : "a directory") << " of checkpoints\n"
       << (options.load_state ? "a" : "no") << " load_state\n";
  for (const double rate : learning_rates) text << "learning rate " << number_text(rate) << "\n";
  const auto& state = OptimizerAccess::state(optimizer);
  text << state.rule.settings << "\n" << optimizer.steps() << " steps of the optimizer\n";
  auto parameter = state.parameters.begin();
  for (std::size_t group = 0; group < state.groups.size(); ++group) {
    text << "group " << group << ": weight_decay " << number_text(state.groups[group].weight_decay)
         << ", learning_rate_factor " << number_text(state.groups[group].learning_rate_factor) << "\n";
    for (const Slot& slot : state.groups[group].slots) {
      text << "parameter \"" << parameter->name << "\" " << parameter->tensor.describe()
           << (parameter->tensor.requires_grad() ? "" : ", frozen") << " of group " << group << ", updated "
           << slot.steps.item() << " times\n";
      ++parameter;
    }
  }
  for (const auto& [name, tensor] : module.state_dict()) {
    text << "\"" << name << "\" " << tensor.describe();
    // What cannot be written to must have the same values.
    if (tensor.is_read_only()) {
      const Tensor dense = tensor.contiguous();
      const std::size_t bytes = static_cast<std::size_t>(dense.element_count()) * item_size(dense.dtype());
      text << " with the checksum " << xxh64_text({static_cast<const char*>(dense.raw_data()), bytes});
    }
    text << "\n";
  }
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream rest(text);
  for (std::string line; std::getline(rest, line);) lines.push_back(line);
  return lines;
}

}  // namespace

void check_ranks_agree(const Module& module, const Optimizer& optimizer, const TrainingOptions& options,
                       const std::vector<double>& learning_rates) {
  check_same_lines(options.ranks, "train", description_of(module, optimizer, options, learning_rates));
}

void check_same_lines(const Communicator& ranks, const char* who, const std::string& own) {
  const std::vector<std::string> checksums = ranks.all_gather(xxh64_text(own));
  if (std::count(checksums.begin(), checksums.end(), checksums.front()) == std::ssize(checksums)) return;
  std::vector<std::vector<std::string>> all;
  std::size_t most = 0;
  for (const std::string& text : ranks.all_gather(own)) {
    all.push_back(lines_of(text));
    most = std::max(most, all.back().size());
  }
  const auto line = [&all](std::size_t rank, std::size_t number) {
    return number < all[rank].size() ? all[rank][number] : std::string("nothing more");
  };
  // All ranks find the same line and compare it once more, which throws the same error on all.
  for (std::size_t number = 0; number < most; ++number) {
    for (std::size_t other = 1; other < all.size(); ++other) {
      if (line(other, number) == line(0, number)) continue;
      ranks.check_same(who, line(static_cast<std::size_t>(ranks.rank()), number));
    }
  }
}

std::string text_of_first(const Communicator& ranks, const std::string& text) {
  if (ranks.is_alone()) return text;
  return ranks.all_gather(ranks.rank() == 0 ? text : std::string()).front();
}

}  // namespace headway::inline v0::internal
