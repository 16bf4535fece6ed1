#include "mpi/control.h"

#include <cstring>

namespace headway::inline v0::internal::mpi {
namespace {

constexpr int kFailed = 1, kEnded = 2;
constexpr int kTag = 0;

}  // namespace

void Control::open() {
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
  ends_.resize(static_cast<std::size_t>(size_));
  if (size_ > 1) await();
}

void Control::await() {
  check_mpi(MPI_Irecv(&incoming_, sizeof(Note), MPI_BYTE, MPI_ANY_SOURCE, kTag, communicator_, &awaited_), "MPI_Irecv");
}

void Control::look() {
  while (awaited_ != MPI_REQUEST_NULL) {
    int arrived = 0;
    check_mpi(MPI_Test(&awaited_, &arrived, MPI_STATUS_IGNORE), "MPI_Test");
    if (arrived == 0) return;
    const Note note = incoming_;
    await();
    take(note);
  }
}

void Control::take(const Note& note) {
  if (note.kind == kFailed) {
    if (!failure_) failure_ = {note.rank, note.why};
    return;
  }
  std::optional<Clock::time_point>& end = ends_[static_cast<std::size_t>(note.rank)];
  if (end) return;
  end = Clock::now();
  ++ended_count_;
  if (note.aborts != 0) any_aborts_ = true;
  if (note.exit_code != 0 && !failure_) {
    failure_ = {note.rank, "it has ended with exit code " + std::to_string(note.exit_code)};
  }
}

void Control::send_to_all(const Note& note) {
  const Note& kept = outgoing_.emplace_back(note);
  for (int to = 0; to < size_; ++to) {
    if (to == rank_) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    // A rank that cannot be reached is one that has gone.
    if (MPI_Isend(&kept, sizeof(Note), MPI_BYTE, to, kTag, communicator_, &request) == MPI_SUCCESS) {
      sends_.push_back(request);
    }
  }
}

void Control::tell_failure(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  Note note;
  note.kind = kFailed;
  note.rank = failure.rank;
  std::strncpy(note.why, failure.why.c_str(), sizeof(note.why) - 1);
  send_to_all(note);
}

void Control::tell_end(int exit_code, bool aborts) {
  if (exit_code != 0 && !failure_) failure_ = {rank_, {}};
  Note note;
  note.kind = kEnded;
  note.rank = rank_;
  note.exit_code = exit_code;
  note.aborts = aborts ? 1 : 0;
  send_to_all(note);
}

bool Control::has_told() {
  int all = 0;
  return MPI_Testall(static_cast<int>(sends_.size()), sends_.data(), &all, MPI_STATUSES_IGNORE) != MPI_SUCCESS ||
         all != 0;
}

void Control::close() {
  if (awaited_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&awaited_);
  MPI_Wait(&awaited_, MPI_STATUS_IGNORE);
}

}  // namespace headway::inline v0::internal::mpi
