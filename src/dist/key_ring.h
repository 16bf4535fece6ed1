// The shares of keys and values of all ranks, one after another, as they come around the ring.
#pragma once

#include "dist/sequence_call.h"

namespace headway::inline v0::internal {

// While a share is here, the next one arrives: memory for two shares beside the rank's own. A share goes no further
// than the last rank that needs it, and what neither stays nor goes on does not come.
//
//   for (KeyRing ring(call, key, value); ring.is_open(); ring.advance()) { ring.start_next(); ... }
class KeyRing {
 public:
  // key [batch, kv_heads, length, head_dim], value likewise: this rank's.
  KeyRing(const SequenceCall& call, const Tensor& key, const Tensor& value);

  bool is_open() const { return step_ < call_.size(); }
  int step() const { return step_; }
  // Whose share is here, and whether this rank needs it.
  int owner() const;
  bool is_needed() const;
  const Tensor& key() const { return key_; }
  const Tensor& value() const { return value_; }

  // Sends the share on and receives the next one, while the caller computes.
  void start_next();
  // Gives the engine a chance to go on.
  void poll() const { next_.done(); }
  // Waits for the next share, which takes the place of the one that is here.
  void advance();

 private:
  int owner_at(int step) const { return (call_.ranks.rank() - step + call_.size()) % call_.size(); }
  // Whether a share reaches this rank `step` steps after it has left its own.
  bool comes(int step) const;

  const SequenceCall& call_;
  std::vector<int> hops_;  // of each rank's share
  int step_ = 0;
  Tensor key_, value_;
  Tensor next_key_, next_value_;
  Transfer next_;
};

}  // namespace headway::inline v0::internal
