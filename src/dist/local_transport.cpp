// Threads of one process as ranks: a message is a copy from the sender's memory to the receiver's.
#include "dist/local_transport.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "core/device_memory.h"

namespace headway::inline v0::internal {
namespace {

class LocalMessages;

// One side of a message that waits for the other.
struct Post {
  void* data = nullptr;
  std::size_t bytes = 0;
  Device device;
  LocalMessages* owner = nullptr;
  int peer = 0;  // who has the other side, as a rank of the world
};

struct LocalFailure {
  int rank = 0;  // in the whole world
  std::string why;
};

// What the ranks of one local() share, whatever groups they split into.
class LocalWorld {
 public:
  explicit LocalWorld(int size) : ended(static_cast<std::size_t>(size)) {}

  // Throws where a rank has failed. Under the mutex.
  void check_failure() const {
    if (failure) fail("rank ", failure->rank, ": ", failure->why);
  }

  // The first reason is kept. Under the mutex.
  void give_up(int rank, std::string why) {
    if (!failure) failure = {rank, std::move(why)};
    changed.notify_all();
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<LocalFailure> failure;
  std::vector<char> ended;  // ranks whose last transport is gone
};

// The ranks that one split() made, or all of them.
struct LocalGroup {
  LocalGroup(std::shared_ptr<LocalWorld> world, std::vector<int> ranks)
      : world(std::move(world)),
        world_ranks(std::move(ranks)),
        sent(world_ranks.size() * world_ranks.size()),
        expected(sent.size()) {}

  int size() const { return static_cast<int>(world_ranks.size()); }
  std::deque<Post>& sent_by(int from, int to) { return sent[place(from, to)]; }
  std::deque<Post>& expected_by(int to, int from) { return expected[place(from, to)]; }

  // One split(): what every rank asked for, and what it gets when the last has asked.
  struct Split {
    std::map<int, std::pair<int, int>> asked;  // rank: color, key
    std::map<int, std::shared_ptr<Transport>> made;
    int taken = 0;
  };

  std::shared_ptr<LocalWorld> world;
  std::vector<int> world_ranks;
  std::vector<std::deque<Post>> sent;          // (from, to): sent and not yet expected
  std::vector<std::deque<Post>> expected;      // (from, to): expected and not yet sent
  std::vector<std::pair<Post, Post>> arrived;  // sent, received: in a device's memory, for the receiver to copy
  std::map<std::int64_t, Split> splits;        // by their number

 private:
  std::size_t place(int from, int to) const {
    return static_cast<std::size_t>(from) * world_ranks.size() + static_cast<std::size_t>(to);
  }
};

void copy_bytes(const Post& from, const Post& to) {
  if (from.device.is_cpu() && to.device.is_cpu()) {
    std::memcpy(to.data, from.data, to.bytes);
  } else if (from.device.is_cpu()) {
    memory_of(to.device).copy_to_device(to.data, from.data, to.bytes);
  } else if (to.device.is_cpu()) {
    memory_of(from.device).copy_to_host(to.data, from.data, to.bytes);
  } else {
    check(from.device == to.device, "a message from ", from.device, " to ", to.device,
          " between threads of one process: expected one device");
    const auto count = static_cast<std::int64_t>(to.bytes);
    memory_of(to.device).strided_copy({to.data, {1}, DType::boolean}, {from.data, {1}, DType::boolean}, {count});
  }
}

class LocalMessages : public Transport::Messages {
 public:
  LocalMessages(std::shared_ptr<LocalGroup> group, int rank, Device device)
      : group_(std::move(group)), rank_(rank), device_(device) {}

  ~LocalMessages() override;

  // Matches messages with those of other ranks that wait, and leaves the others to be found.
  void post(const std::vector<Transport::Outgoing>& outgoing, const std::vector<Transport::Incoming>& incoming);
  bool done() override;
  void wait() override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  // What this rank does when both sides of a message are there. On the host whoever comes second copies; device memory
  // is copied by its receiver, whose queue is its thread's own.
  void meet(Lock& lock, const Post& sent, const Post& received);
  void copy(Lock& lock, const Post& sent, const Post& received);
  void copy_arrived(Lock& lock);
  void check_peers() const;
  LocalWorld& world() const { return *group_->world; }

  std::shared_ptr<LocalGroup> group_;
  int rank_;
  Device device_;
  std::vector<int> peers_;  // one for each message that is not done: who has its other side, as a rank of the world
  int copying_ = 0;         // how many of them are copied right now
};

void LocalMessages::post(const std::vector<Transport::Outgoing>& outgoing,
                         const std::vector<Transport::Incoming>& incoming) {
  if (!device_.is_cpu()) synchronize(device_);  // others read this memory
  Lock lock(world().mutex);
  world().check_failure();
  for (const Transport::Outgoing& message : outgoing) {
    peers_.push_back(group_->world_ranks[static_cast<std::size_t>(message.to)]);
    const Post own{const_cast<void*>(message.data), message.bytes, device_, this, peers_.back()};
    std::deque<Post>& waiting = group_->expected_by(message.to, rank_);
    if (waiting.empty()) {
      group_->sent_by(rank_, message.to).push_back(own);
      continue;
    }
    const Post other = waiting.front();
    waiting.pop_front();
    meet(lock, own, other);
  }
  for (const Transport::Incoming& message : incoming) {
    peers_.push_back(group_->world_ranks[static_cast<std::size_t>(message.from)]);
    const Post own{message.data, message.bytes, device_, this, peers_.back()};
    std::deque<Post>& waiting = group_->sent_by(message.from, rank_);
    if (waiting.empty()) {
      group_->expected_by(rank_, message.from).push_back(own);
      continue;
    }
    const Post other = waiting.front();
    waiting.pop_front();
    meet(lock, other, own);
  }
}

void LocalMessages::meet(Lock& lock, const Post& sent, const Post& received) {
  if (sent.bytes != received.bytes) {
    world().give_up(group_->world_ranks[static_cast<std::size_t>(rank_)],
                    join_parts("a message has ", sent.bytes, " bytes where its receiver expects ", received.bytes));
    world().check_failure();
  }
  const bool on_host = sent.device.is_cpu() && received.device.is_cpu();
  if (on_host) {
    copy(lock, sent, received);
  } else {
    group_->arrived.emplace_back(sent, received);
    world().changed.notify_all();
  }
}

void LocalMessages::copy(Lock& lock, const Post& sent, const Post& received) {
  ++sent.owner->copying_;
  ++received.owner->copying_;
  lock.unlock();
  copy_bytes(sent, received);
  if (!device_.is_cpu()) synchronize(device_);
  lock.lock();
  for (const Post* post : {&sent, &received}) {
    --post->owner->copying_;
    std::vector<int>& peers = post->owner->peers_;
    peers.erase(std::find(peers.begin(), peers.end(), post->peer));
  }
  world().changed.notify_all();
}

void LocalMessages::copy_arrived(Lock& lock) {
  const auto is_own = [&](const auto& pair) { return pair.second.owner == this; };
  std::vector<std::pair<Post, Post>>& arrived = group_->arrived;
  for (auto next = arrived.begin(); (next = std::find_if(arrived.begin(), arrived.end(), is_own)) != arrived.end();) {
    const auto [sent, received] = *next;
    arrived.erase(next);
    copy(lock, sent, received);
  }
}

void LocalMessages::check_peers() const {
  for (const int peer : peers_) {
    check(!world().ended[static_cast<std::size_t>(peer)], "rank ", peer, " ended while rank ",
          group_->world_ranks[static_cast<std::size_t>(rank_)], " still waits for it");
  }
}

bool LocalMessages::done() {
  Lock lock(world().mutex);
  copy_arrived(lock);
  if (peers_.empty()) return true;
  world().check_failure();
  return false;
}

void LocalMessages::wait() {
  Lock lock(world().mutex);
  for (;;) {
    copy_arrived(lock);
    if (peers_.empty()) return;
    world().check_failure();
    check_peers();
    world().changed.wait(lock);
  }
}

LocalMessages::~LocalMessages() {
  Lock lock(world().mutex);
  world().changed.wait(lock, [&] { return copying_ == 0; });
  if (peers_.empty()) return;
  // Where an exception is on its way, it says more, and whoever catches it calls fail().
  if (std::uncaught_exceptions() == 0) {
    world().give_up(group_->world_ranks[static_cast<std::size_t>(rank_)], "it dropped messages that were not done");
  }
  const auto own = [&](const Post& post) { return post.owner == this; };
  for (std::deque<Post>& posts : group_->sent) std::erase_if(posts, own);
  for (std::deque<Post>& posts : group_->expected) std::erase_if(posts, own);
  std::erase_if(group_->arrived, [&](const auto& pair) { return own(pair.first) || own(pair.second); });
  world().changed.notify_all();
}

class LocalTransport : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalGroup> group, int rank, bool is_whole)
      : group_(std::move(group)), rank_(rank), is_whole_(is_whole) {}

  ~LocalTransport() override {
    if (!is_whole_) return;
    const std::lock_guard lock(group_->world->mutex);
    group_->world->ended[static_cast<std::size_t>(rank_)] = true;
    group_->world->changed.notify_all();
  }

  std::string description() const override { return "threads of one process"; }
  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  bool moves(Device) const override { return true; }

  std::unique_ptr<Messages> start(const std::vector<Outgoing>& outgoing, const std::vector<Incoming>& incoming,
                                  Device device) override {
    auto messages = std::make_unique<LocalMessages>(group_, rank_, device);
    messages->post(outgoing, incoming);
    return messages;
  }

  std::shared_ptr<Transport> split(int color, int key) override;

  void fail(const std::string& why) noexcept override {
    const std::lock_guard lock(group_->world->mutex);
    group_->world->give_up(group_->world_ranks[static_cast<std::size_t>(rank_)], why);
  }

 private:
  static void make_groups(LocalGroup& group, LocalGroup::Split& split);

  std::shared_ptr<LocalGroup> group_;
  int rank_;
  bool is_whole_;  // the group of all ranks
  std::int64_t splits_ = 0;
};

// The last rank that asks makes the transports of all.
std::shared_ptr<Transport> LocalTransport::split(int color, int key) {
  LocalWorld& world = *group_->world;
  std::unique_lock lock(world.mutex);
  const std::int64_t number = splits_++;
  LocalGroup::Split& split = group_->splits[number];
  split.asked[rank_] = {color, key};
  if (static_cast<int>(split.asked.size()) == size()) {
    make_groups(*group_, split);
    world.changed.notify_all();
  }
  while (split.made.empty()) {
    world.check_failure();
    world.changed.wait(lock);
  }
  std::shared_ptr<Transport> result = split.made.at(rank_);
  if (++split.taken == size()) group_->splits.erase(number);
  return result;
}

void LocalTransport::make_groups(LocalGroup& group, LocalGroup::Split& split) {
  std::map<int, std::vector<std::pair<int, int>>> colors;  // color: (key, rank) of its ranks
  for (const auto& [rank, wish] : split.asked) colors[wish.first].emplace_back(wish.second, rank);
  for (auto& [color, members] : colors) {
    std::sort(members.begin(), members.end());
    std::vector<int> world_ranks;
    for (const auto& [key, rank] : members) world_ranks.push_back(group.world_ranks[static_cast<std::size_t>(rank)]);
    const auto made = std::make_shared<LocalGroup>(group.world, world_ranks);
    for (std::size_t i = 0; i < members.size(); ++i) {
      split.made[members[i].second] = std::make_shared<LocalTransport>(made, static_cast<int>(i), false);
    }
  }
}

}  // namespace

std::vector<std::shared_ptr<Transport>> local_transports(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto group = std::make_shared<LocalGroup>(std::make_shared<LocalWorld>(size), ranks);
  std::vector<std::shared_ptr<Transport>> transports;
  transports.reserve(ranks.size());
  for (const int rank : ranks) transports.push_back(std::make_shared<LocalTransport>(group, rank, true));
  return transports;
}

}  // namespace headway::inline v0::internal
