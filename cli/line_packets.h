// Lines and results as bytes, and bytes on their way between ranks.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "line_farm.h"

namespace cli {

// Lines that are computed by one rank in one go.
struct LinePacket {
  std::int64_t id = 0;
  Lines lines = {};
};
struct ResultPacket {
  std::int64_t id = 0;
  std::vector<LineResult> results = {};
};

std::string packed(const LinePacket& packet);
std::string packed(const ResultPacket& packet);
void unpack(std::string_view bytes, LinePacket& packet);
void unpack(std::string_view bytes, ResultPacket& packet);

// Texts to and from one other rank, without waiting.
class Mailbox {
 public:
  Mailbox(const headway::Communicator& world, int other) : world_(world), other_(other) {}
  void send(std::string text);
  // The next text where all of it has arrived. "" is a text, too.
  std::optional<std::string> receive();
  // Whether what was sent is gone.
  bool is_sent();

 private:
  struct Sent {
    headway::Tensor size, bytes;
    headway::Transfer transfer;
  };
  headway::Communicator world_;
  int other_;
  std::deque<Sent> sent_ = {};
  headway::Tensor size_ = {}, bytes_ = {};  // of the text that arrives
  std::optional<headway::Transfer> size_arrives_ = {}, bytes_arrive_ = {};
};

// A thread that computes packets one after another, while its owner speaks with other ranks.
class PacketThread {
 public:
  explicit PacketThread(std::function<std::vector<LineResult>(const Lines&)> work);
  // Waits for the packet that is being computed, and leaves out the others.
  ~PacketThread();
  void add(LinePacket packet);
  // Results that are there; throws what the work has thrown.
  std::optional<ResultPacket> take();

 private:
  void run();

  std::function<std::vector<LineResult>(const Lines&)> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<LinePacket> waiting_ = {};
  std::deque<ResultPacket> done_ = {};
  std::exception_ptr problem_ = {};
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace cli
