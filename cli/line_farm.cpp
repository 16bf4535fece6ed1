#include "line_farm.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <thread>

#include "headway/error.h"
#include "line_packets.h"
#include "program.h"
#include "ranks.h"

namespace cli {
namespace {

using FarmClock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kFarmRest{500};     // between two looks at what has arrived
constexpr std::chrono::milliseconds kFarmPatience{50};  // for more lines, before few are dealt out
constexpr std::size_t kPacketsPerRank = 4;              // of the lines that are dealt out together
constexpr std::size_t kLineCost = 16;                   // of a line beside its bytes, where lines are dealt out

LineResult failed_line(const LineFarm& farm, const headway::Communicator& world, const Line& line, std::string why) {
  // The line was alone, and is the first of its batch to those who count from 1.
  if (why.starts_with("text 1 ")) why = why.substr(std::string_view("text 1 ").size());
  LineResult result;
  result.failed = true;
  result.text = farm.failed_text(line, why);
  result.notes.push_back("text " + std::to_string(line.number) + " failed" +
                         (world.is_alone() ? "" : " on rank " + std::to_string(world.rank())) + ": " + why);
  return result;
}

// The results of lines; those that make the others fail are found by halves.
std::vector<LineResult> computed(const LineFarm& farm, const headway::Communicator& world, const Lines& lines) {
  if (!farm.failed_text) return farm.work(lines);
  std::string why;
  try {
    std::vector<LineResult> results = farm.work(lines);
    if (results.size() != lines.size()) throw std::logic_error("results and lines are not as many");
    return results;
  } catch (const std::bad_alloc&) {
    why = "not enough memory";
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (lines.size() == 1) return {failed_line(farm, world, lines.front(), std::move(why))};
  const auto middle = lines.begin() + static_cast<std::ptrdiff_t>(lines.size() / 2);
  std::vector<LineResult> results = computed(farm, world, Lines(lines.begin(), middle));
  for (LineResult& result : computed(farm, world, Lines(middle, lines.end()))) results.push_back(std::move(result));
  return results;
}

// What rank 0 does: it reads, deals out, computes, puts into order and writes.
class LineDealer {
 public:
  LineDealer(const headway::Communicator& world, const LineFarm& farm)
      : farm_(farm),
        ranks_(static_cast<std::size_t>(world.size())),
        under_way_(ranks_),
        thread_([&world, &farm](const Lines& lines) { return computed(farm, world, lines); }) {
    for (int rank = 1; rank < world.size(); ++rank) mail_.push_back(std::make_unique<Mailbox>(world, rank));
  }

  void run() {
    while (!ended_ || !window_.empty()) {
      if (farm_.check_signals) farm_.check_signals();
      const bool has_read = read(), has_dealt = deal(), has_collected = collect();
      write();
      if (!has_read && !has_dealt && !has_collected) std::this_thread::sleep_for(kFarmRest);
    }
    for (const auto& mail : mail_) mail->send("");
    for (const auto& mail : mail_) {
      while (!mail->is_sent()) std::this_thread::sleep_for(kFarmRest);
    }
  }

 private:
  struct Slot {
    Line line;
    LineResult result = {};
    bool is_done = false;
  };
  using Places = std::vector<std::size_t>;  // of lines, counted from the begin of the input

  Slot& slot(std::size_t place) { return window_[place - first_]; }
  std::size_t end() const { return first_ + window_.size(); }
  std::size_t chunk() const { return farm_.most * ranks_; }

  bool read() {
    const bool wanted = !ended_ && packets_.size() < ranks_ && window_.size() < kPacketsPerRank * chunk();
    const std::size_t waiting = end() - dealt_;
    if (wanted && waiting < chunk() && farm_.is_ready()) {
      Lines lines = farm_.next(chunk() - waiting);
      ended_ = lines.empty();
      last_read_ = FarmClock::now();
      for (Line& line : lines) window_.push_back({.line = std::move(line)});
      return true;
    }
    const bool enough = waiting >= chunk() || ended_ || FarmClock::now() - last_read_ > kFarmPatience;
    if (waiting == 0 || !enough || packets_.size() >= ranks_) return false;
    cut();
    return true;
  }

  // Cuts the lines that are there into packets of about the same work, the longest lines first.
  void cut() {
    Places whole;
    for (; dealt_ < end(); ++dealt_) {
      if (slot(dealt_).line.part > 0) {
        parts_.push_back({dealt_});
      } else {
        whole.push_back(dealt_);
      }
    }
    const auto cost = [this](std::size_t place) { return slot(place).line.text.size() + kLineCost; };
    std::stable_sort(whole.begin(), whole.end(), [&](std::size_t a, std::size_t b) { return cost(a) > cost(b); });
    const std::size_t total = std::accumulate(whole.begin(), whole.end(), std::size_t{0},
                                              [&](std::size_t sum, std::size_t place) { return sum + cost(place); });
    const std::size_t count = std::clamp(whole.size() / farm_.batch, ranks_, kPacketsPerRank * ranks_);
    Places packet;
    std::size_t packet_cost = 0;
    for (const std::size_t place : whole) {
      packet.push_back(place);
      packet_cost += cost(place);
      if (packet_cost * count < total && packet.size() < farm_.most) continue;
      packets_.push_back(std::exchange(packet, {}));
      packet_cost = 0;
    }
    if (!packet.empty()) packets_.push_back(std::move(packet));
  }

  bool deal() {
    bool has_dealt = false;
    for (; !parts_.empty() && under_way_[0].size() < 2; parts_.pop_front(), has_dealt = true) give(0, parts_.front());
    // A second packet waits at a rank, so that it need not wait for the next one; not so at the end.
    for (std::size_t depth = 0; depth < 2; ++depth) {
      for (std::size_t rank = ranks_; rank-- > 0;) {
        if (packets_.empty() || under_way_[rank].size() > depth || (depth > 0 && packets_.size() < ranks_)) continue;
        give(rank, packets_.front());
        packets_.pop_front();
        has_dealt = true;
      }
    }
    return has_dealt;
  }

  void give(std::size_t rank, const Places& places) {
    LinePacket packet = {.id = ++last_packet_};
    for (const std::size_t place : places) packet.lines.push_back(slot(place).line);
    under_way_[rank].emplace(packet.id, places);
    if (rank == 0) return thread_.add(std::move(packet));
    mail_[rank - 1]->send(packed(packet));
  }

  bool collect() {
    bool has_collected = false;
    for (std::optional<ResultPacket> packet = thread_.take(); packet; packet = thread_.take()) {
      put(0, *packet);
      has_collected = true;
    }
    for (std::size_t rank = 1; rank < ranks_; ++rank) {
      mail_[rank - 1]->is_sent();
      if (under_way_[rank].empty()) continue;
      const std::optional<std::string> bytes = mail_[rank - 1]->receive();
      if (!bytes) continue;
      ResultPacket packet;
      unpack(*bytes, packet);
      put(rank, packet);
      has_collected = true;
    }
    return has_collected;
  }

  void put(std::size_t rank, ResultPacket& packet) {
    const auto found = under_way_[rank].find(packet.id);
    if (found == under_way_[rank].end() || found->second.size() != packet.results.size()) {
      throw headway::Error("rank " + std::to_string(rank) + " sent other results than those of its lines");
    }
    for (std::size_t i = 0; i < packet.results.size(); ++i) {
      Slot& place = slot(found->second[i]);
      place.result = std::move(packet.results[i]);
      place.is_done = true;
    }
    under_way_[rank].erase(found);
  }

  void write() {
    Lines lines;
    std::vector<LineResult> results;
    for (; !window_.empty() && window_.front().is_done; window_.pop_front(), ++first_) {
      lines.push_back(std::move(window_.front().line));
      results.push_back(std::move(window_.front().result));
    }
    if (!lines.empty()) farm_.write(lines, results);
  }

  const LineFarm& farm_;
  std::size_t ranks_;
  std::deque<Slot> window_ = {};  // lines that are read and not written
  std::size_t first_ = 0;         // the place of the first of them
  std::size_t dealt_ = 0;         // the place of the first that is in no packet
  bool ended_ = false;
  FarmClock::time_point last_read_ = FarmClock::now();
  std::deque<Places> packets_ = {};  // for any rank
  std::deque<Places> parts_ = {};    // for rank 0
  std::int64_t last_packet_ = 0;
  std::vector<std::map<std::int64_t, Places>> under_way_;  // by rank
  std::vector<std::unique_ptr<Mailbox>> mail_ = {};        // of rank 1, 2, ...
  PacketThread thread_;
};

// What the other ranks do.
class LineWorker {
 public:
  LineWorker(const headway::Communicator& world, const LineFarm& farm)
      : mail_(world, 0), thread_([&world, &farm](const Lines& lines) { return computed(farm, world, lines); }) {}

  void run() {
    std::int64_t under_way = 0;
    bool ended = false;
    while (!ended || under_way > 0 || !mail_.is_sent()) {
      bool has_worked = false;
      if (const auto bytes = ended ? std::nullopt : mail_.receive()) {
        has_worked = true;
        ended = bytes->empty();
        if (!ended) {
          LinePacket packet;
          unpack(*bytes, packet);
          thread_.add(std::move(packet));
          ++under_way;
        }
      }
      if (const auto result = thread_.take()) {
        has_worked = true;
        mail_.send(packed(*result));
        --under_way;
      }
      if (!has_worked) std::this_thread::sleep_for(kFarmRest);
    }
  }

 private:
  Mailbox mail_;
  PacketThread thread_;
};

void farm_alone(const headway::Communicator& world, const LineFarm& farm) {
  while (true) {
    if (farm.check_signals) farm.check_signals();
    const Lines lines = farm.next(farm.most);
    if (lines.empty()) return;
    farm.write(lines, computed(farm, world, lines));
  }
}

// Runs a side of the farm. Where it cannot go on, the others learn it before its thread has ended.
template <typename Side>
void run_side(const headway::Communicator& world, const LineFarm& farm) {
  Side side(world, farm);
  try {
    side.run();
  } catch (const std::exception& error) {
    if (world.rank() == 0 && farm.died) farm.died(error.what());
    world.fail(error.what());
    if (world.rank() > 0) throw ToldElsewhere(kFailed);
    throw;
  }
}

}  // namespace

void farm_lines(const headway::Communicator& world, const LineFarm& farm) {
  if (world.is_alone()) return farm_alone(world, farm);
  if (world.rank() == 0) return run_side<LineDealer>(world, farm);
  run_side<LineWorker>(world, farm);
}

std::vector<std::string> line_texts(const Lines& lines) {
  std::vector<std::string> texts;
  texts.reserve(lines.size());
  for (const Line& line : lines) texts.push_back(line.text);
  return texts;
}

}  // namespace cli
