#include "line_packets.h"

#include <cstring>

#include "headway/error.h"

namespace cli {
namespace {

void put(std::string& bytes, std::int64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void put(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<std::int64_t>(text.size()));
  bytes += text;
}

std::string_view taken_bytes(std::string_view& bytes, std::int64_t count) {
  if (count < 0 || static_cast<std::size_t>(count) > bytes.size()) {
    throw headway::Error("a message of another rank is not whole");
  }
  const std::string_view text = bytes.substr(0, static_cast<std::size_t>(count));
  bytes.remove_prefix(text.size());
  return text;
}

std::int64_t taken_number(std::string_view& bytes) {
  std::int64_t number = 0;
  std::memcpy(&number, taken_bytes(bytes, sizeof(number)).data(), sizeof(number));
  return number;
}

std::string taken_text(std::string_view& bytes) { return std::string(taken_bytes(bytes, taken_number(bytes))); }

}  // namespace

std::string packed(const LinePacket& packet) {
  std::string bytes;
  put(bytes, packet.id);
  put(bytes, static_cast<std::int64_t>(packet.lines.size()));
  for (const Line& line : packet.lines) {
    put(bytes, line.number);
    put(bytes, line.text);
  }
  return bytes;
}

void unpack(std::string_view bytes, LinePacket& packet) {
  packet.id = taken_number(bytes);
  for (std::int64_t count = taken_number(bytes); count > 0; --count) {
    Line line;
    line.number = taken_number(bytes);
    line.text = taken_text(bytes);
    packet.lines.push_back(std::move(line));
  }
}

std::string packed(const ResultPacket& packet) {
  std::string bytes;
  put(bytes, packet.id);
  put(bytes, static_cast<std::int64_t>(packet.results.size()));
  for (const LineResult& result : packet.results) {
    put(bytes, result.text);
    put(bytes, static_cast<std::int64_t>(result.failed));
    put(bytes, static_cast<std::int64_t>(result.notes.size()));
    for (const std::string& note : result.notes) put(bytes, note);
  }
  return bytes;
}

void unpack(std::string_view bytes, ResultPacket& packet) {
  packet.id = taken_number(bytes);
  for (std::int64_t count = taken_number(bytes); count > 0; --count) {
    LineResult result;
    result.text = taken_text(bytes);
    result.failed = taken_number(bytes) != 0;
    for (std::int64_t notes = taken_number(bytes); notes > 0; --notes) result.notes.push_back(taken_text(bytes));
    packet.results.push_back(std::move(result));
  }
}

void Mailbox::send(std::string text) {
  Sent sent;
  sent.size = headway::Tensor::from({static_cast<std::int64_t>(text.size())}, {1});
  std::vector<headway::Communicator::Sent> messages = {{sent.size, other_}};
  if (!text.empty()) {
    sent.bytes = headway::Tensor::empty({static_cast<std::int64_t>(text.size())}, headway::DType::boolean);
    std::memcpy(sent.bytes.raw_data(), text.data(), text.size());
    messages.push_back({sent.bytes, other_});
  }
  sent.transfer = world_.start_messages(messages, {});
  sent_.push_back(std::move(sent));
}

bool Mailbox::is_sent() {
  while (!sent_.empty() && sent_.front().transfer.done()) {
    sent_.front().transfer.wait();
    sent_.pop_front();
  }
  return sent_.empty();
}

std::optional<std::string> Mailbox::receive() {
  if (!size_arrives_) {
    size_ = headway::Tensor::zeros({1}, headway::DType::int64);
    size_arrives_ = world_.start_messages({}, {{size_, other_}});
  }
  if (!bytes_arrive_) {
    if (!size_arrives_->done()) return std::nullopt;
    size_arrives_->wait();
    const std::int64_t size = *size_.data<std::int64_t>();
    if (size == 0) {
      size_arrives_.reset();
      return std::string();
    }
    bytes_ = headway::Tensor::empty({size}, headway::DType::boolean);
    bytes_arrive_ = world_.start_messages({}, {{bytes_, other_}});
  }
  if (!bytes_arrive_->done()) return std::nullopt;
  bytes_arrive_->wait();
  std::string text(static_cast<const char*>(bytes_.raw_data()), static_cast<std::size_t>(bytes_.size(0)));
  size_arrives_.reset();
  bytes_arrive_.reset();
  bytes_ = {};
  return text;
}

PacketThread::PacketThread(std::function<std::vector<LineResult>(const Lines&)> work)
    : work_(std::move(work)), thread_([this] { run(); }) {}

PacketThread::~PacketThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void PacketThread::add(LinePacket packet) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(packet));
  }
  changed_.notify_one();
}

std::optional<ResultPacket> PacketThread::take() {
  const std::lock_guard lock(mutex_);
  if (problem_) std::rethrow_exception(problem_);
  if (done_.empty()) return std::nullopt;
  ResultPacket packet = std::move(done_.front());
  done_.pop_front();
  return packet;
}

void PacketThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
    if (ends_) return;
    const LinePacket packet = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    ResultPacket result = {packet.id, {}};
    std::exception_ptr problem;
    try {
      result.results = work_(packet.lines);
    } catch (...) {
      problem = std::current_exception();
    }
    lock.lock();
    done_.push_back(std::move(result));
    if (!problem) continue;
    problem_ = problem;
    return;
  }
}

}  // namespace cli
