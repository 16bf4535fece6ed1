// Ranks that compute together: processes started by mpirun or srun, GPUs joined by NCCL, threads of one process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "headway/export.h"
#include "headway/tensor.h"
#include "headway/transport.h"

namespace headway {
inline namespace v0 {

namespace internal {
struct RankGroup;
struct TransferState;
}  // namespace internal

// How the ranks' elements become one. A sum is taken in the order of the ranks, ((r0 + r1) + r2) + ..., 16-bit numbers
// in float32 and rounded once, so that its bits do not depend on the engine, and are those of one rank that adds up the
// same terms in the same order.
enum class Reduce { sum, max, min };

// An operation that was started and goes on while its caller computes. A shared handle; it keeps its tensors. A
// transfer that is dropped before wait() ends the other ranks' waiting with an Error.
class HEADWAY_API Transfer {
 public:
  Transfer() = default;  // done

  // Whether wait() would return at once; gives the engine a chance to go on.
  bool done() const;
  // Returns when the result is there. Throws an Error that names the rank where one has failed.
  void wait() const;

 private:
  explicit Transfer(std::shared_ptr<internal::TransferState> state) : state_(std::move(state)) {}
  std::shared_ptr<internal::TransferState> state_;
  friend class Communicator;
};

// What a rank has done through one communicator and those that share its transport.
struct TransferCounts {
  std::int64_t messages_sent = 0;
  std::int64_t bytes_sent = 0;
  double seconds_waited = 0.0;  // inside wait() and the operations that wait
};

// A group of ranks as one of them sees it. A shared handle; by default one rank alone, which needs no engine. Every
// rank makes the same calls in the same order with tensors of the same dtype, and one thread at a time uses a
// communicator. An exception that leaves a rank's work ends all ranks within seconds: run_ranks() sees to it,
// Communicator::mpi() by the end of the process, and fail() by hand.
class HEADWAY_API Communicator {
 public:
  Communicator() = default;
  explicit Communicator(std::shared_ptr<Transport> transport);

  // All processes that mpirun or srun started. libheadway_mpi is opened by the first call; throws where it cannot be,
  // or where ranks have different versions of Headway.
  static Communicator mpi();
  // mpi() where the environment says that the program was started by mpirun or srun with more than one process, else
  // one rank alone.
  static Communicator world();
  // One GPU for each rank of `spread`, which carries NCCL's identification from rank 0 to the others.
  static Communicator nccl(const Communicator& spread, Device device);
  // The same without another engine: the identification goes through a file that all ranks see and that does not exist
  // yet.
  static Communicator nccl(const std::filesystem::path& file, int rank, int size, Device device);
  // Threads of one process as ranks: entry r belongs to the thread that is rank r.
  static std::vector<Communicator> local(int size);

  int rank() const;
  int size() const;
  bool is_alone() const { return size() == 1; }
  std::string description() const;

  // ---- operations; in place where they return nothing ----
  void barrier() const;
  void broadcast(const Tensor& values, int root = 0) const;
  void all_reduce(const Tensor& values, Reduce how = Reduce::sum) const;
  // Rank r's result is the sum of all ranks' rows [counts[0] + ... + counts[r - 1], ...) of `values`, which is the same
  // shape on every rank. Without counts the rows are dealt out as evenly as they go, the first ranks get one more.
  Tensor reduce_scatter(const Tensor& values, const std::vector<std::int64_t>& counts = {}) const;
  // The ranks' rows, one after another. counts: how many rows each rank has; without them all have the same.
  Tensor all_gather(const Tensor& share, const std::vector<std::int64_t>& counts = {}) const;
  // parts[r] goes to rank r; entry r of received is what rank r sent to this one. Undefined or empty parts send
  // nothing. The receiver knows the shapes: `received` holds tensors of the right shape, which are filled.
  void all_to_all(const std::vector<Tensor>& parts, const std::vector<Tensor>& received) const;
  // Sends one tensor to a rank and fills another from a rank, at the same time; both may be this rank.
  void exchange(const Tensor& sent, int to, const Tensor& received, int from) const;

  // The same, started: the tensors must stay unchanged until wait() has returned.
  Transfer start_broadcast(const Tensor& values, int root = 0) const;
  Transfer start_all_reduce(const Tensor& values, Reduce how = Reduce::sum) const;
  Transfer start_reduce_scatter(const Tensor& values, const Tensor& result,
                                const std::vector<std::int64_t>& counts = {}) const;
  Transfer start_all_gather(const Tensor& share, const Tensor& result,
                            const std::vector<std::int64_t>& counts = {}) const;
  Transfer start_all_to_all(const std::vector<Tensor>& parts, const std::vector<Tensor>& received) const;
  // Any messages at once; messages from one rank to another are matched in the order in which they were started.
  struct Sent {
    Tensor values;
    int to = 0;
  };
  struct Received {
    Tensor values;
    int from = 0;
  };
  Transfer start_messages(const std::vector<Sent>& sent, const std::vector<Received>& received) const;

  // ---- of the host ----
  double all_reduce(double value, Reduce how = Reduce::sum) const;
  std::vector<std::string> all_gather(const std::string& text) const;
  // Throws the same Error on every rank where they have not all passed the same text: "WHAT: rank 1 has B, rank 0 A".
  void check_same(const std::string& what, const std::string& text) const;

  // Every rank calls it: the ranks of one color form a communicator of their own, ordered by key, then by rank.
  Communicator split(int color, int key = 0) const;
  // Ends what other ranks wait for, now or later, with an Error that names this rank.
  void fail(const std::string& why) const noexcept;
  TransferCounts counts() const;

  // How `rows` rows are dealt out to `ranks` ranks where nothing else is said.
  static std::vector<std::int64_t> even_counts(std::int64_t rows, int ranks);

 private:
  std::shared_ptr<internal::RankGroup> group_;  // null: one rank alone
};

// Runs work(rank's communicator) on `size` threads and returns when all have ended. Each thread has a random state of
// its own, which begins as the caller's. The first exception that leaves one of them ends the others' waiting and is
// thrown here, as an Error that begins with "rank R: " where it is one.
HEADWAY_API void run_ranks(int size, const std::function<void(const Communicator&)>& work);

}  // namespace v0
}  // namespace headway
