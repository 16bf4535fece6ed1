// From tensors to the messages of an engine.
#include "base/check.h"
#include "core/tensor_impl.h"
#include "dist/group.h"
#include "headway/autograd.h"

namespace headway::inline v0::internal {
namespace {

std::size_t bytes_of(const Tensor& values) {
  return static_cast<std::size_t>(values.element_count()) * item_size(values.dtype());
}

}  // namespace

void MessageList::send(const Tensor& values, int to) {
  if (values.defined() && values.element_count() > 0) sent_.push_back({values.detach(), to, {}});
}

void MessageList::receive(const Tensor& values, int from) {
  if (!values.defined() || values.element_count() == 0) return;
  check(!values.is_read_only(), "a tensor that is read-only cannot receive what rank ", from, " sends");
  received_.push_back({values.detach(), from, {}});
}

std::unique_ptr<Transport::Messages> MessageList::start(RankGroup& group) {
  if (sent_.empty() && received_.empty()) return nullptr;
  const NoGradGuard guard;
  Transport& transport = *group.transport;
  const Device own = (sent_.empty() ? received_ : sent_).front().values.device();
  const Device device = transport.moves(own) ? own : transport.device();
  std::vector<Transport::Outgoing> outgoing;
  for (Message& message : sent_) {
    message.memory = message.values.to(device).contiguous();
    outgoing.push_back({message.rank, message.memory.raw_data(), bytes_of(message.memory)});
    group.counts->bytes_sent += static_cast<std::int64_t>(outgoing.back().bytes);
  }
  group.counts->messages_sent += static_cast<std::int64_t>(outgoing.size());
  std::vector<Transport::Incoming> incoming;
  for (Message& message : received_) {
    const bool direct = message.values.is_contiguous() && message.values.device() == device;
    message.memory = direct ? message.values : Tensor::empty(message.values.shape(), message.values.dtype(), device);
    incoming.push_back({message.rank, message.memory.raw_data(), bytes_of(message.memory)});
  }
  return transport.start(outgoing, incoming, device);
}

void MessageList::finish() {
  const NoGradGuard guard;
  for (Message& message : received_) {
    if (message.memory.raw_data() == message.values.raw_data()) {
      bump_version(message.values);
    } else {
      message.values.copy_from(message.memory);
    }
  }
  sent_.clear();
  received_.clear();
}

}  // namespace headway::inline v0::internal
