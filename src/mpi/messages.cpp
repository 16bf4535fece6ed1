#include "mpi/messages.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace headway::inline v0::internal::mpi {
namespace {

// What is at the beginning of a head; a short message follows it.
struct Head {
  std::uint64_t bytes = 0;
  std::uint64_t on_device = 0;
};
// A head with the longest short message fits into what MPI copies at once between processes of one machine.
constexpr std::size_t kShortBytes = 4000 - sizeof(Head);

// What a rank sent before its end was known may still be on its way.
constexpr std::chrono::milliseconds kGrace{500};

enum BodyKind { kSent, kReceived };

}  // namespace

std::string Members::name_of(int rank_here) const {
  const std::string name = "rank " + std::to_string(rank_here);
  const int in_world = world_rank(rank_here);
  return in_world == rank_here ? name : name + " (" + std::to_string(in_world) + " of all)";
}

StartedMessages::StartedMessages(Engine& engine, std::shared_ptr<const Members> members,
                                 const std::vector<Transport::Outgoing>& outgoing,
                                 const std::vector<Transport::Incoming>& incoming, Device device)
    : engine_(engine), members_(std::move(members)), device_(device) {
  if (!device.is_cpu()) engine_.synchronize(device);
  if (const std::optional<std::string> why = start(outgoing, incoming)) fail(*why);
}

std::optional<std::string> StartedMessages::start(const std::vector<Transport::Outgoing>& outgoing,
                                                  const std::vector<Transport::Incoming>& incoming) {
  const std::lock_guard lock(engine_.mutex());
  if (!engine_.is_open()) return "MPI: messages are started after the end of the program or after MPI_Finalize";
  if (const std::optional<std::string> why = problem()) return why;
  expected_.reserve(incoming.size());
  try {
    for (const Transport::Incoming& message : incoming) post_receive(message);
    for (const Transport::Outgoing& message : outgoing) post_send(message);
  } catch (const Error& error) {
    abandon();
    return error.what();
  }
  open_ = static_cast<int>(requests_.size());
  completed_.resize(requests_.size());
  statuses_.resize(requests_.size());
  look();
  if (is_open()) engine_.add(*this);
  return {};
}

StartedMessages::~StartedMessages() {
  const std::lock_guard lock(engine_.mutex());
  if (!engine_.is_open()) {
    for (std::unique_ptr<std::byte[]>& part : memory_) static_cast<void>(part.release());  // MPI may still read it
    return;
  }
  engine_.remove(*this);
  look();
  if (open_ == 0) return;
  engine_.drop();
  abandon();
}

bool StartedMessages::is_short(std::size_t bytes) const { return device_.is_cpu() && bytes <= kShortBytes; }

std::byte* StartedMessages::new_memory(std::size_t bytes) {
  return memory_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(bytes)).get();
}

void StartedMessages::note(MPI_Request request, int partner, int head) {
  requests_.push_back(request);
  partners_.push_back(partner);
  heads_.push_back(head);
}

void StartedMessages::post_receive(const Transport::Incoming& message) {
  const int from = members_->world_rank(message.from);
  std::byte* head = new_memory(sizeof(Head) + kShortBytes);
  expected_.push_back({.message = message, .head = head});
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Irecv(head, sizeof(Head) + kShortBytes, MPI_BYTE, from, members_->tag, engine_.communicator(), &request),
      "MPI_Irecv");
  note(request, from, static_cast<int>(expected_.size()) - 1);
  if (!is_short(message.bytes)) {
    post_body(kReceived, static_cast<std::byte*>(message.data), message.bytes, from);
  }
}

void StartedMessages::post_send(const Transport::Outgoing& message) {
  const int to = members_->world_rank(message.to);
  const bool is_short_one = is_short(message.bytes);
  const std::size_t head_bytes = sizeof(Head) + (is_short_one ? message.bytes : 0);
  std::byte* memory = new_memory(head_bytes);
  const Head head = {.bytes = message.bytes, .on_device = device_.is_cpu() ? 0U : 1U};
  std::memcpy(memory, &head, sizeof(Head));
  if (is_short_one) std::memcpy(memory + sizeof(Head), message.data, message.bytes);
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(
      MPI_Isend(memory, static_cast<int>(head_bytes), MPI_BYTE, to, members_->tag, engine_.communicator(), &request),
      "MPI_Isend");
  note(request, to, kNoHead);
  if (!is_short_one) {
    post_body(kSent, static_cast<std::byte*>(const_cast<void*>(message.data)), message.bytes, to);  // is only read
  }
}

void StartedMessages::post_body(int kind, std::byte* data, std::size_t bytes, int world_rank) {
  for (std::size_t begin = 0; begin < bytes; begin += kMostBytes) {
    const int count = static_cast<int>(std::min(kMostBytes, bytes - begin));
    MPI_Request request = MPI_REQUEST_NULL;
    if (kind == kSent) {
      check_mpi(
          MPI_Isend(data + begin, count, MPI_BYTE, world_rank, members_->tag + 1, engine_.communicator(), &request),
          "MPI_Isend");
    } else {
      check_mpi(
          MPI_Irecv(data + begin, count, MPI_BYTE, world_rank, members_->tag + 1, engine_.communicator(), &request),
          "MPI_Irecv");
    }
    note(request, world_rank, kNoHead);
  }
}

void StartedMessages::take_head(Expected& expected) {
  expected.has_head = true;
  Head head;
  std::memcpy(&head, expected.head, sizeof(Head));
  const Transport::Incoming& message = expected.message;
  const bool on_device = !device_.is_cpu();
  if (head.bytes != message.bytes) {
    problem_ = join_parts("MPI: a message of ", head.bytes, " bytes came from ", members_->name_of(message.from),
                          ", expected ", message.bytes, " bytes");
  } else if ((head.on_device != 0) != on_device) {
    problem_ = join_parts("MPI: a message from the memory of a ", on_device ? "CPU" : "GPU", " came from ",
                          members_->name_of(message.from), ", expected one from that of a ", on_device ? "GPU" : "CPU");
  } else if (is_short(message.bytes)) {
    std::memcpy(message.data, expected.head + sizeof(Head), message.bytes);
  }
}

bool StartedMessages::heads_are_there() const {
  return std::ranges::all_of(expected_, [](const Expected& expected) { return expected.has_head; });
}

void StartedMessages::look() noexcept {
  if (!is_open()) return;
  int count = 0;
  const int code =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, completed_.data(), statuses_.data());
  if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
    problem_ = "MPI: MPI_Testsome: " + error_text(code);
    return;
  }
  if (count == MPI_UNDEFINED) count = 0;
  open_ -= count;
  for (int i = 0; i < count; ++i) {
    const int head = heads_[static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)])];
    const int error = code == MPI_SUCCESS ? MPI_SUCCESS : statuses_[static_cast<std::size_t>(i)].MPI_ERROR;
    if (error != MPI_SUCCESS) {
      body_error_ = error;
    } else if (head != kNoHead && problem_.empty()) {
      take_head(expected_[static_cast<std::size_t>(head)]);
    }
  }
  // A body that was too long is told by its head, in other words.
  if (body_error_ != MPI_SUCCESS && problem_.empty() && (open_ == 0 || heads_are_there())) {
    problem_ = "MPI: a message did not arrive: " + error_text(body_error_);
  }
}

std::optional<std::string> StartedMessages::problem() const {
  if (!problem_.empty()) return problem_;
  if (const std::optional<Failure>& failure = engine_.control().failure()) {
    return join_parts("rank ", failure->rank, ": ", failure->why);
  }
  return {};
}

std::optional<Failure> StartedMessages::ended_partner() const {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const std::optional<Clock::time_point>& end = engine_.control().end_of(partners_[i]);
    if (requests_[i] != MPI_REQUEST_NULL && end && Clock::now() - *end > kGrace) {
      return Failure{partners_[i], "it has ended before the ranks that wait for it"};
    }
  }
  return {};
}

// Throws without the mutex: where nobody catches, nothing is unwound and the farewell needs it.
bool StartedMessages::done() {
  std::optional<std::string> why;
  {
    const std::lock_guard lock(engine_.mutex());
    if (engine_.is_open()) {
      look();
      if (open_ == 0 && problem_.empty()) return true;
      Control& control = engine_.control();
      control.look();
      if (const std::optional<Failure> ended = ended_partner()) control.tell_failure(*ended);
      if (!problem_.empty()) control.tell_failure({engine_.rank(), problem_});
      why = problem();
    } else {
      why = "MPI: messages are waited for after the end of the program or after MPI_Finalize";
    }
  }
  if (why) fail(*why);
  return false;
}

void StartedMessages::wait() {
  const Engine::Watching watching(engine_);
  Pacer pacer;
  while (true) {
    const Clock::time_point start = Clock::now();
    if (done()) return;
    pacer.pause(Clock::now() - start);
  }
}

// Called where ranks have failed: the caller's memory must not be written to any more. What has not been matched is
// cancelled, and what is under way has a moment to arrive.
void StartedMessages::abandon() noexcept {
  constexpr std::chrono::milliseconds kMoment{200};
  for (MPI_Request& request : requests_) {
    if (request != MPI_REQUEST_NULL) MPI_Cancel(&request);
  }
  const Clock::time_point start = Clock::now();
  int all = 0;
  while (all == 0 && Clock::now() - start < kMoment) {
    if (MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE) != MPI_SUCCESS) {
      break;
    }
  }
  if (all != 0) return;
  for (std::unique_ptr<std::byte[]>& part : memory_) static_cast<void>(part.release());  // MPI may still use it
}

}  // namespace headway::inline v0::internal::mpi
