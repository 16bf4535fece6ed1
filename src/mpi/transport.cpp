// MPI as a transport, and the two functions of the library.
#include <algorithm>
#include <array>
#include <numeric>

#include "base/check.h"
#include "base/mpi_library.h"
#include "mpi/messages.h"

namespace headway::inline v0::internal::mpi {
namespace {

class MpiTransport final : public Transport {
 public:
  MpiTransport(Engine& engine, Members members)
      : engine_(engine), members_(std::make_shared<const Members>(std::move(members))) {}

  std::string description() const override { return "MPI (" + engine_.version() + ")"; }
  int rank() const override { return members_->rank; }
  int size() const override { return members_->size(); }
  bool moves(Device device) const override { return device.is_cpu() || engine_.moves_cuda(); }

  std::unique_ptr<Messages> start(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming,
                                  Device device) override {
    check(moves(device), "MPI: messages lie in the memory of a GPU, which this MPI does not read");
    for (const Outgoing& message : outgoing) check_partner(message.to, message.bytes);
    for (const Incoming& message : incoming) check_partner(message.from, message.bytes);
    return std::make_unique<StartedMessages>(engine_, members_, outgoing, incoming, device);
  }
  std::shared_ptr<Transport> split(int color, int key) override;
  void fail(const std::string& why) noexcept override { engine_.fail(why); }

 private:
  struct Choice {
    int color = 0;
    int key = 0;
    int next_tag = 0;
  };

  void check_partner(int rank, std::size_t bytes) const {
    check(rank >= 0 && rank < size() && rank != this->rank(), "MPI: a message between rank ", this->rank(),
          " and rank ", rank, " of ", size());
    check(bytes > 0, "MPI: a message without bytes, expected one at least");
  }
  std::vector<Choice> gather(const Choice& own);

  Engine& engine_;
  std::shared_ptr<const Members> members_;
};

// The first tag that no transport of this process has used yet.
int next_tag = 2;

std::vector<MpiTransport::Choice> MpiTransport::gather(const Choice& own) {
  std::vector<Choice> all(static_cast<std::size_t>(size()));
  std::vector<Outgoing> outgoing;
  std::vector<Incoming> incoming;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) {
      all[static_cast<std::size_t>(other)] = own;
      continue;
    }
    outgoing.push_back({.to = other, .data = &own, .bytes = sizeof(Choice)});
    incoming.push_back({.from = other, .data = &all[static_cast<std::size_t>(other)], .bytes = sizeof(Choice)});
  }
  start(outgoing, incoming, Device::cpu())->wait();
  return all;
}

// No call of MPI's own, which would wait for a failed rank for ever: transports differ in their tags. Ranks that share
// a transport agree on tags that none of them has used, so no two transports of the same two ranks have the same.
std::shared_ptr<Transport> MpiTransport::split(int color, int key) {
  const std::vector<Choice> all = gather({.color = color, .key = key, .next_tag = next_tag});
  std::vector<int> colors, chosen;
  int first_tag = 0;
  for (int other = 0; other < size(); ++other) {
    const Choice& choice = all[static_cast<std::size_t>(other)];
    colors.push_back(choice.color);
    first_tag = std::max(first_tag, choice.next_tag);
    if (choice.color == color) chosen.push_back(other);
  }
  std::ranges::stable_sort(chosen, {}, [&](int other) { return all[static_cast<std::size_t>(other)].key; });
  std::ranges::sort(colors);
  colors.erase(std::ranges::unique(colors).begin(), colors.end());
  const auto place = std::ranges::find(colors, color) - colors.begin();
  next_tag = first_tag + 2 * static_cast<int>(colors.size());
  check(next_tag <= engine_.most_tag(), "MPI: split() was called so often that no tags are left: ", engine_.most_tag());

  Members members;
  members.tag = first_tag + 2 * static_cast<int>(place);
  for (const int other : chosen) {
    if (other == rank()) members.rank = members.size();
    members.world_ranks.push_back(members_->world_rank(other));
  }
  return std::make_shared<MpiTransport>(engine_, std::move(members));
}

std::shared_ptr<Transport> open(const MpiHost& host) {
  Engine& engine = Engine::open(host);
  Members members;
  members.rank = engine.rank();
  members.world_ranks.resize(static_cast<std::size_t>(engine.size()));
  std::iota(members.world_ranks.begin(), members.world_ranks.end(), 0);
  static const auto world = std::make_shared<MpiTransport>(engine, std::move(members));
  return world;
}

}  // namespace
}  // namespace headway::inline v0::internal::mpi

extern "C" HEADWAY_API const char* headway_mpi_interface() { return headway::internal::kInterfaceHash; }

extern "C" HEADWAY_API void headway_mpi_open(const headway::internal::MpiHost* host,
                                             std::shared_ptr<headway::Transport>* transport) {
  *transport = headway::internal::mpi::open(*host);
}
