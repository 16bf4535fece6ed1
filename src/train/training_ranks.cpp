// Training on several ranks.
#include "train/training_ranks.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/check.h"
#include "core/tensor_impl.h"
#include "headway/autograd.h"
#include "train/checkpoint.h"
#include "train/gradient_norms.h"
#include "train/optimizer_shares.h"
#include "train/rank_checks.h"
#include "train/rank_runs.h"

namespace headway::inline v0::internal {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double peak_bytes() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

// About the order in which gradients become complete: that of the module, from its end to its beginning.
std::vector<std::size_t> expected_order(const Module& module, const std::vector<NamedTensor>& parameters) {
  std::map<const TensorImpl*, std::size_t> number_of;
  for (std::size_t i = 0; i < parameters.size(); ++i) number_of[&TensorImpl::of(parameters[i].tensor)] = i;
  std::vector<std::size_t> order;
  const std::vector<NamedTensor> all = module.named_parameters();
  for (auto parameter = all.rbegin(); parameter != all.rend(); ++parameter) {
    const auto found = number_of.find(&TensorImpl::of(parameter->tensor));
    if (found == number_of.end()) continue;
    order.push_back(found->second);
    number_of.erase(found);
  }
  std::set<std::size_t> elsewhere;  // parameters that are not the module's
  for (const auto& [tensor, number] : number_of) elsewhere.insert(number);
  order.insert(order.end(), elsewhere.begin(), elsewhere.end());
  return order;
}

GradientBuckets buckets_of(const Module& module, const Optimizer& optimizer, const Communicator& ranks,
                           std::int64_t bytes) {
  const std::vector<NamedTensor>& parameters = optimizer.parameters();
  return GradientBuckets(ranks, parameters, expected_order(module, parameters), bytes);
}

// ---- the numbers that a rank tells the others in a step ----

constexpr std::size_t kTokens = 0, kWaited = 1, kPassed = 2, kPeak = 3, kFixed = 4;
// Then come the losses of its parts, whether each parameter had a gradient, and the norms of its shares of them.

}  // namespace

void share_out_state(const Module& module, Optimizer& optimizer, const Communicator& ranks, std::int64_t bucket_bytes) {
  if (ranks.is_alone()) return;
  share_out(optimizer, {.ranks = ranks, .ranges = buckets_of(module, optimizer, ranks, bucket_bytes).ranges()});
}

TrainingRanks::TrainingRanks(const Module& module, Optimizer& optimizer, const TrainingOptions& options,
                             const std::vector<double>& learning_rates)
    : ranks_(options.ranks), module_(module), optimizer_(optimizer) {
  check(options.bucket_bytes >= 1, "train: bucket_bytes is ", options.bucket_bytes, ", expected 1 or more");
  check_ranks_agree(module, optimizer, options, learning_rates);
  buckets_.emplace(buckets_of(module, optimizer, ranks_, options.bucket_bytes));
  share_out(optimizer, {.ranks = ranks_, .ranges = buckets_->ranges()});
  waited_ = ranks_.counts().seconds_waited;
  told_at_ = seconds_now();
}

std::optional<Checkpoint> TrainingRanks::shared(const std::function<std::optional<Checkpoint>()>& read) const {
  std::optional<Checkpoint> checkpoint;
  if (is_first()) checkpoint = read();
  constexpr std::int64_t kNone = -1;
  const Tensor numbers = Tensor::full({3}, kNone, DType::int64), loss = Tensor::zeros({1}, DType::float64);
  auto* const values = numbers.data<std::int64_t>();
  if (checkpoint) {
    values[0] = checkpoint->step;
    values[1] = checkpoint->skipped_steps;
    values[2] = checkpoint->skipped_in_a_row;
    *loss.data<double>() = checkpoint->loss;
  }
  ranks_.broadcast(numbers);
  ranks_.broadcast(loss);
  if (values[0] == kNone) return {};
  std::string state = text_of_first(ranks_, checkpoint ? checkpoint->state : std::string());
  if (!is_first()) {
    checkpoint = Checkpoint{.step = values[0], .state = std::move(state)};
    checkpoint->skipped_steps = values[1];
    checkpoint->skipped_in_a_row = values[2];
    checkpoint->loss = *loss.data<double>();
  }
  return checkpoint;
}

void TrainingRanks::load_optimizer(const StateDict& of_first) const {
  for (const StateEntry& entry : state_entries(optimizer_)) {
    scatter_entry(optimizer_, entry, is_first() ? of_first.at(entry.name) : Tensor());
  }
}

void TrainingRanks::broadcast_module() const {
  const NoGradGuard guard;
  std::set<const void*> sent;  // tied ones once
  for (const auto& [name, tensor] : module_.state_dict()) {
    if (tensor.element_count() == 0 || tensor.is_read_only() || !sent.insert(tensor.raw_data()).second) continue;
    const Tensor values = elements(tensor);
    ranks_.broadcast(values);
    if (!is_first()) Tensor(tensor).detach().copy_from(values.view(tensor.shape()));
  }
}

GradientWatch TrainingRanks::watch() {
  Tensors leaves;
  watched_.clear();
  for (std::size_t i = 0; i < optimizer_.parameters().size(); ++i) {
    const Tensor& parameter = optimizer_.parameters()[i].tensor;
    if (!parameter.requires_grad()) continue;
    leaves.push_back(parameter);
    watched_.push_back(i);
  }
  return GradientWatch(leaves, [this](std::size_t leaf) { buckets_->complete(watched_[leaf]); });
}

std::vector<double> TrainingRanks::told(const std::vector<Tensor>& losses, std::int64_t tokens) {
  const std::size_t parameters = optimizer_.parameters().size();
  std::vector<double> numbers(kFixed);
  for (const Tensor& loss : losses) numbers.push_back(loss.item());
  for (std::size_t i = 0; i < parameters; ++i) numbers.push_back(buckets_->had_gradient(i) ? 1.0 : 0.0);
  for (const double norm : norms_of(buckets_->own_sums())) numbers.push_back(norm);
  const double waited = ranks_.counts().seconds_waited, now = seconds_now();
  numbers[kTokens] = static_cast<double>(tokens);
  numbers[kWaited] = waited - waited_;
  numbers[kPassed] = now - told_at_;
  numbers[kPeak] = peak_bytes();
  waited_ = waited;
  told_at_ = now;
  return numbers;
}

StepNumbers TrainingRanks::finish_step(const std::vector<Tensor>& losses, std::int64_t tokens) {
  for (std::size_t i = 0; i < optimizer_.parameters().size(); ++i) {
    const auto& [name, parameter] = optimizer_.parameters()[i];
    check(!buckets_->is_complete(i) || !parameter.grad().defined(), "train: the gradient of \"", name,
          "\" grew after the last operation that used it, as by a backward() inside of another one");
  }
  buckets_->finish();
  const std::vector<double> own = told(losses, tokens);
  const auto count = static_cast<std::int64_t>(own.size());
  const Device device = optimizer_.parameters().front().tensor.device();
  const Tensor all = ranks_.all_gather(Tensor::from(own, {1, count}).to(device)).to(Device::cpu());
  const std::size_t parameters = optimizer_.parameters().size(), flags = kFixed + losses.size();
  StepNumbers step;
  double waited = 0.0, passed = 0.0;
  std::vector<double> norms(parameters);
  std::vector<bool> had_gradient(parameters);
  for (std::int64_t rank = 0; rank < size(); ++rank) {
    const double* const numbers = all.data<double>() + rank * count;
    step.tokens += static_cast<std::int64_t>(numbers[kTokens]);
    waited += numbers[kWaited];
    passed += numbers[kPassed];
    step.peak_bytes = std::max(step.peak_bytes, static_cast<std::int64_t>(numbers[kPeak]));
    step.losses.insert(step.losses.end(), numbers + kFixed, numbers + flags);
    for (std::size_t i = 0; i < parameters; ++i) {
      if (numbers[flags + i] > 0.0) had_gradient[i] = true;
      norms[i] = std::hypot(norms[i], numbers[flags + parameters + i]);
    }
  }
  step.waiting = passed > 0.0 ? waited / passed : 0.0;
  std::vector<NamedNorm> named;
  for (std::size_t i = 0; i < parameters; ++i) {
    if (had_gradient[i]) named.push_back({.name = optimizer_.parameters()[i].name, .norm = norms[i]});
  }
  step.norms = joined_norms(std::move(named));
  moved_ = std::move(had_gradient);
  return step;
}

void TrainingRanks::update(double gradient_factor) {
  std::vector<Tensor> sums = buckets_->own_sums();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (!moved_[i]) sums[i] = Tensor();  // it had no gradient on any rank
  }
  step_shares(optimizer_, sums, gradient_factor);
  sums.clear();
  buckets_->gather_parameters();
}

void TrainingRanks::save(const std::filesystem::path& directory, const Checkpoint& checkpoint,
                         std::int64_t keep) const {
  std::vector<TensorToWrite> optimizer;
  for (const StateEntry& entry : state_entries(optimizer_)) {
    const Tensor like = shape_of(entry);
    optimizer.push_back(
        {entry.name, like.shape(), like.dtype(), [this, entry] { return gathered_entry(optimizer_, entry); }});
  }
  if (is_first()) {
    save_checkpoint_in_pieces(directory, checkpoint, std::move(optimizer), keep);
  } else {
    sort_for_file(optimizer);
    for (const TensorToWrite& tensor : optimizer) tensor.make();
  }
  ranks_.barrier();  // an error of rank 0 reaches the others here
}

}  // namespace headway::inline v0::internal
