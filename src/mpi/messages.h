// Messages of one start(). Each has a head, which tells its size and, where it is short, carries it; the bytes of a
// long one follow as a body, straight between the two ranks' memories. So a size that the receiver did not expect is
// known from the head alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headway/transport.h"
#include "mpi/engine.h"

namespace headway::inline v0::internal::mpi {

// The ranks of a transport and the tags that are its own: two of them, for heads and for bodies.
struct Members {
  std::vector<int> world_ranks;  // by rank
  int rank = 0;
  int tag = 0;

  int size() const { return static_cast<int>(world_ranks.size()); }
  int world_rank(int rank_here) const { return world_ranks[static_cast<std::size_t>(rank_here)]; }
  // "rank 1", where ranks are counted in another way than all processes "rank 1 (3 of all)".
  std::string name_of(int rank_here) const;
};

class StartedMessages final : public Transport::Messages, private Pending {
 public:
  StartedMessages(Engine& engine, std::shared_ptr<const Members> members,
                  const std::vector<Transport::Outgoing>& outgoing, const std::vector<Transport::Incoming>& incoming,
                  Device device);
  ~StartedMessages() override;
  StartedMessages(const StartedMessages&) = delete;
  StartedMessages& operator=(const StartedMessages&) = delete;

  bool done() override;
  void wait() override;

 private:
  // What an incoming message is compared with.
  struct Expected {
    Transport::Incoming message;
    std::byte* head = nullptr;
    bool has_head = false;
  };
  static constexpr int kNoHead = -1;

  // Why they cannot be started; none: they are.
  std::optional<std::string> start(const std::vector<Transport::Outgoing>& outgoing,
                                   const std::vector<Transport::Incoming>& incoming);

  // With the engine's mutex held.
  void post_receive(const Transport::Incoming& message);
  void post_send(const Transport::Outgoing& message);
  void post_body(int kind, std::byte* data, std::size_t bytes, int world_rank);
  void look() noexcept override;
  bool is_open() const override { return open_ > 0 && problem_.empty(); }
  void take_head(Expected& expected);
  // Why these messages will never be done; none: they may be.
  std::optional<std::string> problem() const;
  std::optional<Failure> ended_partner() const;
  void abandon() noexcept;

  bool is_short(std::size_t bytes) const;
  bool heads_are_there() const;
  std::byte* new_memory(std::size_t bytes);
  void note(MPI_Request request, int partner, int head);

  Engine& engine_;
  std::shared_ptr<const Members> members_;
  Device device_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;  // of the heads
  std::vector<Expected> expected_;
  std::vector<MPI_Request> requests_;
  std::vector<int> partners_;  // for each request, a rank of all
  std::vector<int> heads_;     // for each request, of which expected message it is the head; kNoHead
  std::vector<int> completed_;
  std::vector<MPI_Status> statuses_;
  int open_ = 0;  // requests that are not done
  int body_error_ = MPI_SUCCESS;
  std::string problem_;
};

}  // namespace headway::inline v0::internal::mpi
