#include "dist/key_ring.h"

#include <utility>

namespace headway::inline v0::internal {

KeyRing::KeyRing(const SequenceCall& call, const Tensor& key, const Tensor& value)
    : call_(call), key_(key.contiguous()), value_(value.contiguous()) {
  for (int owner = 0; owner < call.size(); ++owner) hops_.push_back(share_hops(call, owner));
}

int KeyRing::owner() const { return owner_at(step_); }

bool KeyRing::is_needed() const { return key_.defined() && needs_share(call_, call_.rank(), owner()); }

bool KeyRing::comes(int step) const {
  return step < call_.size() && step <= hops_[static_cast<std::size_t>(owner_at(step))];
}

void KeyRing::start_next() {
  std::vector<Communicator::Sent> sent;
  std::vector<Communicator::Received> received;
  const int size = call_.size(), to = (call_.rank() + 1) % size, from = (call_.rank() + size - 1) % size;
  if (key_.defined() && step_ < hops_[static_cast<std::size_t>(owner())]) sent = {{key_, to}, {value_, to}};
  if (comes(step_ + 1)) {
    const auto like = [&](const Tensor& share) {
      const std::int64_t length = call_.keys.size(owner_at(step_ + 1));
      return Tensor::empty({share.size(0), share.size(1), length, share.size(3)}, share.dtype(), share.device());
    };
    next_key_ = like(call_.whole.key);
    next_value_ = like(call_.whole.value);
    received = {{next_key_, from}, {next_value_, from}};
  }
  next_ = call_.ranks.start_messages(sent, received);
}

void KeyRing::advance() {
  next_.wait();
  next_ = Transfer();
  key_ = std::exchange(next_key_, Tensor());
  value_ = std::exchange(next_value_, Tensor());
  ++step_;
}

}  // namespace headway::inline v0::internal
