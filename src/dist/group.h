// What is behind a Communicator and a Transfer.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "headway/communicator.h"

namespace headway::inline v0::internal {

// The ranks of a communicator. Those that split() made count together with the one that they came from.
struct RankGroup {
  std::shared_ptr<Transport> transport;
  std::shared_ptr<TransferCounts> counts;
  int rank = 0;
  int size = 1;
};

// Messages between tensors: makes them dense, takes those that the engine cannot reach through memory that it can, and
// copies what has arrived to where it belongs.
class MessageList {
 public:
  // Empty tensors send nothing and receive nothing.
  void send(const Tensor& values, int to);
  void receive(const Tensor& values, int from);

  // Starts all of them; null where there are none.
  std::unique_ptr<Transport::Messages> start(RankGroup& group);
  // Called when they are done.
  void finish();

 private:
  struct Message {
    Tensor values;  // as the caller holds them
    int rank = 0;
    Tensor memory;  // dense, where the engine reads or writes
  };
  std::vector<Message> sent_;
  std::vector<Message> received_;
};

struct TransferState {
  std::shared_ptr<RankGroup> group;
  MessageList list;
  std::unique_ptr<Transport::Messages> messages;  // null: none
  std::function<void()> finish;                   // what is left to do when they have arrived; empty: nothing
  bool waited = false;
};

// sum += more for floating tensors and integers, or the greater or smaller of both; dense and of one shape.
void reduce_into(const Tensor& sum, const Tensor& more, Reduce how);

// The reduction of the ranks' terms in their order, written into the result, which may be one of them: 16-bit sums are
// rounded once.
void reduce_terms(const std::vector<Tensor>& terms, Reduce how, const Tensor& result);

}  // namespace headway::inline v0::internal
