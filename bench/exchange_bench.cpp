// What messages between ranks cost: `mpirun -n 2 exchange_bench`. Each rank exchanges with its neighbours in a ring.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "headway/communicator.h"

namespace {

using namespace headway;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double processor_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <typename Work>
double median_seconds(int count, const Work& work) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) {
    const Clock::time_point start = Clock::now();
    work();
    all.push_back(seconds_since(start));
  }
  std::nth_element(all.begin(), all.begin() + count / 2, all.end());
  return all[static_cast<std::size_t>(count / 2)];
}

struct Ring {
  Communicator ranks;
  int next = (ranks.rank() + 1) % ranks.size();
  int before = (ranks.rank() + ranks.size() - 1) % ranks.size();
  bool prints = ranks.rank() == 0;
};

void measure_exchanges(const Ring& ring) {
  for (const std::int64_t bytes : {8LL, 1024LL, 3800LL, 64LL << 10, 1LL << 20, 4LL << 20, 64LL << 20}) {
    const Tensor sent = Tensor::zeros({bytes / 8}, DType::float64),
                 received = Tensor::zeros({bytes / 8}, DType::float64);
    const int count = bytes < 100000 ? 2000 : static_cast<int>(std::max(20LL, (1LL << 28) / bytes));
    ring.ranks.barrier();
    const double copied = median_seconds(
        std::min(count, 50), [&] { std::memcpy(received.raw_data(), sent.raw_data(), sent.element_count() * 8); });
    ring.ranks.barrier();
    const double exchanged =
        median_seconds(count, [&] { ring.ranks.exchange(sent, ring.next, received, ring.before); });
    if (!ring.prints) continue;
    std::printf("%9lld bytes: %10.1f us, %6.2f GB/s each way; memcpy %10.1f us\n", static_cast<long long>(bytes),
                exchanged * 1e6, static_cast<double>(bytes) / exchanged * 1e-9, copied * 1e6);
  }
}

// How much of a transfer is done while the rank computes, which here is a loop that looks at nothing else.
void measure_overlap(const Ring& ring) {
  for (const std::int64_t bytes : {4LL << 20, 64LL << 20}) {
    const Tensor sent = Tensor::zeros({bytes / 8}, DType::float64),
                 received = Tensor::zeros({bytes / 8}, DType::float64);
    const double alone = median_seconds(10, [&] { ring.ranks.exchange(sent, ring.next, received, ring.before); });
    std::vector<double> waits;
    for (int i = 0; i < 10; ++i) {
      ring.ranks.barrier();
      const Transfer transfer = ring.ranks.start_messages({{sent, ring.next}}, {{received, ring.before}});
      const Clock::time_point start = Clock::now();
      while (seconds_since(start) < 2 * alone + 0.005) {
      }
      waits.push_back(median_seconds(1, [&] { transfer.wait(); }));
    }
    std::sort(waits.begin(), waits.end());
    if (ring.prints) {
      std::printf("%9lld bytes: %.2f ms alone, %.3f ms left to wait for after %.2f ms of computing\n",
                  static_cast<long long>(bytes), alone * 1e3, waits[5] * 1e3, 2e3 * alone + 5);
    }
  }
}

// What it costs to have a message under way that does not come.
void measure_watching(const Ring& ring) {
  const Tensor sent = Tensor::zeros({8}), received = Tensor::zeros({8});
  ring.ranks.barrier();
  const Transfer awaited = ring.ranks.start_messages({}, {{received, ring.before}});
  const double before = processor_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const double spent = processor_seconds() - before;
  const Transfer last = ring.ranks.start_messages({{sent, ring.next}}, {});
  last.wait();
  awaited.wait();
  if (ring.prints) std::printf("a message under way: %.2f%% of a core\n", spent / 2 * 100);
}

}  // namespace

int main() {
  const Ring ring = {.ranks = Communicator::world()};
  if (ring.ranks.is_alone()) {
    std::printf("exchange_bench: start it with mpirun -n 2\n");
    return 1;
  }
  if (ring.prints) std::printf("%s, %d ranks\n", ring.ranks.description().c_str(), ring.ranks.size());
  measure_exchanges(ring);
  measure_overlap(ring);
  measure_watching(ring);
  return 0;
}
