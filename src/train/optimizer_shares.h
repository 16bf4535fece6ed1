// The state of an optimizer that is shared out over ranks: each rank updates a range of every parameter's elements.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/internal_api.h"
#include "train/optimizer_state.h"

namespace headway::inline v0::internal {

// What a friend of Optimizer may see.
class OptimizerAccess {
 public:
  using State = Optimizer::State;
  static State& state(const Optimizer& optimizer) { return *optimizer.state_; }
};

// Elements of a dense tensor as a view of one dimension.
Tensor elements(const Tensor& tensor);
Tensor elements(const Tensor& tensor, const ElementRange& range);

// One tensor of an optimizer's state.
struct StateEntry {
  std::string name;  // in state dicts
  Tensor here;       // where the state is shared out: this rank's elements as [count]
  Shape shape;       // of the whole tensor
  std::size_t parameter = kOfNone;

  static constexpr std::size_t kOfNone = ~std::size_t{0};  // a count, the same on all ranks
  bool is_shared() const { return parameter != kOfNone; }  // where the optimizer's state is
};

// All of the optimizer's state, by name ascending.
std::vector<StateEntry> state_entries(const Optimizer& optimizer);
// A tensor of the whole entry's shape and dtype without memory of its own, to be compared and printed.
Tensor shape_of(const StateEntry& entry);
// Which elements of an entry this rank has; all where nothing is shared out.
ElementRange own_range(const Optimizer& optimizer, const StateEntry& entry);

// ---- every rank calls these ----

// Leaves masters and moments of the rank's own ranges, [parameter][rank], and drops the others. Where the state is
// shared out already, it must be over the same ranks and ranges.
void share_out(Optimizer& optimizer, OptimizerShares shares);
// One step by the sums of the gradients of the own elements.
void step_shares(Optimizer& optimizer, const std::vector<Tensor>& gradients, double gradient_factor);
// The whole of one entry on rank 0, undefined elsewhere.
Tensor gathered_entry(const Optimizer& optimizer, const StateEntry& entry);
// Every rank takes its elements of `whole`, which rank 0 has.
void scatter_entry(const Optimizer& optimizer, const StateEntry& entry, const Tensor& whole);
// The whole of all entries on every rank. Where nothing is shared out they share memory with the optimizer.
StateDict whole_state(const Optimizer& optimizer, const std::vector<StateEntry>& entries);

}  // namespace headway::inline v0::internal
