// What an optimizer keeps, and how its state is shared out over ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "headway/communicator.h"
#include "headway/optimizer.h"

namespace headway::inline v0 {
namespace internal {

// Some elements of a parameter, in row-major order.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;

  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

// Named, because Optimizer::State has members of these types.
inline namespace optimizer_state {

using Spans = std::span<const ParameterSpan>;

// The state of a parameter besides its value and its gradient. Masters and moments are made when they are first needed;
// they are shaped as the parameter, or where the state is shared out as [own.count].
struct Slot {
  Tensor parameter;
  ElementRange own;             // what this optimizer updates; all elements, unless it is shared out
  Tensor master;                // float32; undefined: none
  std::vector<Tensor> moments;  // in the order of the moments' names
  Tensor steps;                 // int64, one element, on the CPU: how often the parameter was updated
};

// What a step of a group depends on besides its parameters.
struct GroupStep {
  double learning_rate = 0.0;
  double weight_decay = 0.0;
  double gradient_factor = 1.0;
};

struct Group {
  std::vector<Slot> slots;
  double weight_decay = 0.0;
  double learning_rate_factor = 1.0;
};

// How one kind of optimizer differs from another.
struct Rule {
  const char* name = "";                  // in errors
  std::string settings = {};              // all numbers of it as text, which ranks compare
  std::vector<const char*> moments = {};  // torch's names
  double learning_rate = 0.0;             // at first
  double weight_decay = 0.0;              // of groups that name none
  bool master_weights = true;             // of 16-bit parameters
  std::function<void(Backend&, Spans, const GroupStep&)> step = {};
};

}  // namespace optimizer_state

// Which rank updates which elements. Counts of steps are the same on all ranks.
struct OptimizerShares {
  Communicator ranks;
  std::vector<std::vector<ElementRange>> ranges;  // [parameter][rank]
};

}  // namespace internal

struct Optimizer::State {
  // Hidden, although Optimizer is visible: no user can name a Rule.
  [[gnu::visibility("hidden")]] State(std::vector<ParameterGroup> given, internal::Rule how);

  // Makes masters and moments where they are not there yet.
  void allocate();
  // One step by the gradients of the own elements, one for each parameter; undefined ones leave theirs unchanged.
  void step(const std::vector<Tensor>& gradients, double gradient_factor);
  // Calls visit(parameter's number, slot) for all, in the order of `parameters`.
  template <typename Visit>
  void for_each_slot(const Visit& visit) {
    std::size_t number = 0;
    for (internal::Group& group : groups) {
      for (internal::Slot& slot : group.slots) visit(number++, slot);
    }
  }

  internal::Rule rule;
  double learning_rate = 0.0;
  Tensor steps = Tensor::zeros({}, DType::int64);
  std::vector<internal::Group> groups;
  std::vector<NamedTensor> parameters;  // of all groups, in order
  bool allocated = false;
  std::optional<internal::OptimizerShares> shares;  // nothing: all state is here
};

}  // namespace headway::inline v0
