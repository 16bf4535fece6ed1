// What ranks tell each other beside their messages: that one has failed and why, or that it has ended.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "mpi/calls.h"

namespace headway::inline v0::internal::mpi {

struct Failure {
  int rank = 0;
  std::string why;
};

// A communicator of its own, on which a message from any rank is always awaited. Its owner sees to it that one thread
// at a time calls it.
class Control {
 public:
  Control() = default;
  // Every rank calls it.
  void open();
  // Takes what has come.
  void look();

  // The first failure that this rank knows of, its own included.
  const std::optional<Failure>& failure() const { return failure_; }
  // When a rank's end came to be known; none: it goes on.
  const std::optional<Clock::time_point>& end_of(int rank) const { return ends_[static_cast<std::size_t>(rank)]; }
  bool all_others_have_ended() const { return ended_count_ == size_ - 1; }
  bool any_aborts() const { return any_aborts_; }
  // Whether the first failure was another rank's.
  bool has_failed_elsewhere() const { return failure_ && failure_->rank != rank_; }

  // Tell all others. Nothing is told after the first failure but the end.
  void tell_failure(const Failure& failure);
  // aborts: this process does not finalise MPI, so that the others must not wait for it there.
  void tell_end(int exit_code, bool aborts);
  // Whether what was told has left this process.
  bool has_told();
  // Stops waiting for messages, so that MPI can be finalised.
  void close();

  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  struct Note {
    int kind = 0;
    int rank = 0;
    int exit_code = 0;
    int aborts = 0;
    char why[1008] = {};
  };

  void await();
  void take(const Note& note);
  void send_to_all(const Note& note);

  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  Note incoming_;
  MPI_Request awaited_ = MPI_REQUEST_NULL;
  std::deque<Note> outgoing_;  // stay where they are
  std::vector<MPI_Request> sends_;
  std::optional<Failure> failure_;
  std::vector<std::optional<Clock::time_point>> ends_;
  int ended_count_ = 0;
  bool any_aborts_ = false;
};

}  // namespace headway::inline v0::internal::mpi
