// Communicators: their making, and transfers that were started.
#include "headway/communicator.h"

#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "core/random_stream.h"
#include "dist/engines.h"
#include "dist/group.h"
#include "dist/local_transport.h"
#include "headway/error.h"
#include "headway/version.h"

namespace headway::inline v0 {

// ---- transfers ----

bool Transfer::done() const { return !state_ || state_->waited || !state_->messages || state_->messages->done(); }

void Transfer::wait() const {
  if (!state_ || state_->waited) return;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  if (state_->messages) state_->messages->wait();
  state_->messages.reset();
  state_->list.finish();
  state_->group->counts->seconds_waited += std::chrono::duration<double>(Clock::now() - start).count();
  state_->waited = true;
  if (state_->finish) std::exchange(state_->finish, nullptr)();
}

// ---- making ----

Communicator::Communicator(std::shared_ptr<Transport> transport) {
  internal::check(transport != nullptr, "Communicator: transport is null");
  const int rank = transport->rank(), size = transport->size();
  internal::check(size >= 1 && rank >= 0 && rank < size, "Communicator: the transport says that it is rank ", rank,
                  " of ", size);
  group_ = std::make_shared<internal::RankGroup>(internal::RankGroup{
      .transport = std::move(transport), .counts = std::make_shared<TransferCounts>(), .rank = rank, .size = size});
}

Communicator Communicator::mpi() {
  static const Communicator all = [] {
    const Communicator ranks(internal::open_mpi());
    ranks.check_same("Communicator::mpi: the version of Headway", HEADWAY_VERSION);
    return ranks;
  }();
  return all;
}

Communicator Communicator::world() { return internal::started_by_launcher() ? mpi() : Communicator(); }

Communicator Communicator::nccl(const Communicator& spread, Device device) {
  std::string id;
  if (spread.rank() == 0) id = internal::new_nccl_id(device);
  id = spread.all_gather(id).front();
  return Communicator(internal::open_nccl(device, id, spread.rank(), spread.size()));
}

std::vector<Communicator> Communicator::local(int size) {
  internal::check(size >= 1, "Communicator::local: size is ", size, ", expected 1 or more");
  std::vector<Communicator> ranks;
  for (std::shared_ptr<Transport>& transport : internal::local_transports(size)) {
    ranks.emplace_back(std::move(transport));
  }
  return ranks;
}

Communicator Communicator::split(int color, int key) const {
  if (!group_) return {};
  Communicator part(group_->transport->split(color, key));
  part.group_->counts = group_->counts;
  return part;
}

int Communicator::rank() const { return group_ ? group_->rank : 0; }
int Communicator::size() const { return group_ ? group_->size : 1; }
std::string Communicator::description() const { return group_ ? group_->transport->description() : "one rank alone"; }
TransferCounts Communicator::counts() const { return group_ ? *group_->counts : TransferCounts(); }

void Communicator::fail(const std::string& why) const noexcept {
  if (group_) group_->transport->fail(why);
}

// ---- threads as ranks ----

namespace {

// The first exception that left a rank: the others' follow from it.
class FirstFailure {
 public:
  // What the other ranks are told.
  std::string keep(int rank) {
    std::string why = "it threw something that is no exception";
    std::exception_ptr thrown = std::current_exception();
    try {
      throw;
    } catch (const Error& error) {
      why = error.what();
      thrown = std::make_exception_ptr(Error("rank " + std::to_string(rank) + ": " + why));
    } catch (const std::exception& error) {
      why = error.what();
    } catch (...) {
    }
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = thrown;
    return why;
  }

  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace

void run_ranks(int size, const std::function<void(const Communicator&)>& work) {
  FirstFailure failure;
  std::vector<std::thread> threads;
  for (Communicator& ranks : Communicator::local(size)) {
    threads.emplace_back([&failure, &work, random = random_state(), ranks = std::move(ranks)]() mutable {
      const internal::OwnRandomStream stream(random);
      try {
        work(ranks);
      } catch (...) {
        ranks.fail(failure.keep(ranks.rank()));
      }
      ranks = Communicator();  // others no longer wait for it
    });
  }
  for (std::thread& thread : threads) thread.join();
  failure.rethrow();
}

}  // namespace headway::inline v0
