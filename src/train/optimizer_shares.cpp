// Sharing out an optimizer's state, and joining it again.
#include "train/optimizer_shares.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "headway/autograd.h"

namespace headway::inline v0::internal {
namespace {

using Messages = std::pair<std::vector<Communicator::Sent>, std::vector<Communicator::Received>>;

const OptimizerShares* shares_of(const Optimizer& optimizer) {
  const auto& shares = OptimizerAccess::state(optimizer).shares;
  return shares ? &*shares : nullptr;
}

// A rank's elements of an entry.
ElementRange range_of(const OptimizerShares& shares, const StateEntry& entry, int rank) {
  return shares.ranges[entry.parameter][static_cast<std::size_t>(rank)];
}

Tensor new_whole(const StateEntry& entry) {
  return Tensor::empty(entry.shape, entry.here.dtype(), entry.here.device());
}

// This rank's part of the messages by which the whole of an entry comes together in `whole` on `root`.
void add_gathering(const OptimizerShares& shares, const StateEntry& entry, const Tensor& whole, int root,
                   Messages& messages) {
  const int rank = shares.ranks.rank();
  if (rank != root) {
    if (entry.here.element_count() > 0) messages.first.push_back({.values = entry.here, .to = root});
    return;
  }
  for (int from = 0; from < shares.ranks.size(); ++from) {
    const ElementRange range = range_of(shares, entry, from);
    if (range.count == 0) continue;
    Tensor place = elements(whole, range);
    if (from == rank) {
      place.copy_from(entry.here);
    } else {
      messages.second.push_back({.values = place, .from = from});
    }
  }
}

void send(const OptimizerShares& shares, const Messages& messages) {
  shares.ranks.start_messages(messages.first, messages.second).wait();
}

}  // namespace

Tensor elements(const Tensor& tensor) { return tensor.detach().contiguous().view({tensor.element_count()}); }

Tensor elements(const Tensor& tensor, const ElementRange& range) {
  return elements(tensor).slice(0, range.begin, range.begin + range.count);
}

std::vector<StateEntry> state_entries(const Optimizer& optimizer) {
  constexpr const char* kMaster = "master";
  auto& state = OptimizerAccess::state(optimizer);
  state.allocate();
  std::vector<StateEntry> entries;
  state.for_each_slot([&](std::size_t number, const Slot& slot) {
    const std::string prefix = state.parameters[number].name + ".";
    const auto add = [&](const char* name, const Tensor& tensor) {
      entries.push_back({.name = prefix + name, .here = tensor, .shape = slot.parameter.shape(), .parameter = number});
    };
    for (std::size_t i = 0; i < slot.moments.size(); ++i) add(state.rule.moments[i], slot.moments[i]);
    if (slot.master.defined()) add(kMaster, slot.master);
    entries.push_back({.name = prefix + "step", .here = slot.steps, .shape = {}});
  });
  entries.push_back({.name = "steps", .here = state.steps, .shape = {}});
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

Tensor shape_of(const StateEntry& entry) {
  return entry.is_shared() ? Tensor::zeros({}, entry.here.dtype()).expand(entry.shape) : entry.here;
}

ElementRange own_range(const Optimizer& optimizer, const StateEntry& entry) {
  const OptimizerShares* const shares = shares_of(optimizer);
  if (shares != nullptr && entry.is_shared()) return range_of(*shares, entry, shares->ranks.rank());
  return {.begin = 0, .count = entry.here.element_count()};
}

void share_out(Optimizer& optimizer, OptimizerShares shares) {
  auto& state = OptimizerAccess::state(optimizer);
  const NoGradGuard guard;
  if (state.shares) {
    check(state.shares->ranks.size() == shares.ranks.size() && state.shares->ranks.rank() == shares.ranks.rank() &&
              state.shares->ranges == shares.ranges,
          "train: the optimizer's state is shared out over ", state.shares->ranks.size(),
          " ranks in another way; make a new optimizer");
    state.shares = std::move(shares);
    return;
  }
  const auto rank = static_cast<std::size_t>(shares.ranks.rank());
  state.for_each_slot([&](std::size_t number, Slot& slot) {
    slot.own = shares.ranges[number][rank];
    if (slot.master.defined()) slot.master = elements(slot.master, slot.own).clone();
    for (Tensor& moment : slot.moments) moment = elements(moment, slot.own).clone();
  });
  state.shares = std::move(shares);
}

void step_shares(Optimizer& optimizer, const std::vector<Tensor>& gradients, double gradient_factor) {
  OptimizerAccess::state(optimizer).step(gradients, gradient_factor);
}

Tensor gathered_entry(const Optimizer& optimizer, const StateEntry& entry) {
  const OptimizerShares* const shares = shares_of(optimizer);
  if (shares == nullptr || !entry.is_shared()) return entry.here;
  const NoGradGuard guard;
  const Tensor whole = shares->ranks.rank() == 0 ? new_whole(entry) : Tensor();
  Messages messages;
  add_gathering(*shares, entry, whole, 0, messages);
  send(*shares, messages);
  return whole;
}

void scatter_entry(const Optimizer& optimizer, const StateEntry& entry, const Tensor& whole) {
  const OptimizerShares& shares = *shares_of(optimizer);
  const NoGradGuard guard;
  Tensor here = entry.here;
  if (!entry.is_shared()) {
    if (shares.ranks.rank() == 0) here.copy_from(whole);
    shares.ranks.broadcast(here);
    return;
  }
  Messages messages;
  if (shares.ranks.rank() == 0) {
    const Tensor values = elements(whole.to(here.device()).to(here.dtype()));
    here.copy_from(elements(values, range_of(shares, entry, 0)));
    for (int to = 1; to < shares.ranks.size(); ++to) {
      const ElementRange range = range_of(shares, entry, to);
      if (range.count > 0) messages.first.push_back({.values = elements(values, range), .to = to});
    }
  } else if (here.element_count() > 0) {
    messages.second.push_back({.values = here, .from = 0});
  }
  send(shares, messages);
}

StateDict whole_state(const Optimizer& optimizer, const std::vector<StateEntry>& entries) {
  const OptimizerShares* const shares = shares_of(optimizer);
  const NoGradGuard guard;
  StateDict state;
  Messages messages;
  for (const StateEntry& entry : entries) {
    if (shares == nullptr || !entry.is_shared()) {
      state.emplace(entry.name, entry.here);
      continue;
    }
    const Tensor whole = new_whole(entry);
    for (int root = 0; root < shares->ranks.size(); ++root) {
      add_gathering(*shares, entry, root == shares->ranks.rank() ? whole : Tensor(), root, messages);
    }
    state.emplace(entry.name, whole);
  }
  if (shares != nullptr) send(*shares, messages);
  return state;
}

}  // namespace headway::inline v0::internal
