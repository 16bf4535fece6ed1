// Causal attention over ranks beside one rank with as many threads as all of them: the ratio of their times.
//   ring_bench [--length N] [--heads N] [--head-dim N] [--ranks N] [--threads N] [--rounds N] [--backward] [--mpi]
//              [--dtype float32|bfloat16|float16] [--method ring|ulysses] [--layout zigzag|contiguous]
// Ranks are threads of one process, of one thread each, or with --mpi the processes of mpirun, with --threads each. A
// program of n ranks on fewer than n * threads processors measures nothing.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "headway/headway.h"
#include "headway/sequence_parallel.h"
#include "headway/threads.h"

namespace {

using headway::Communicator;
using headway::SequenceLayout;
using headway::SequenceMethod;
using headway::SequenceShares;
using headway::Tensor;

struct RingBenchOptions {
  std::int64_t length = 32768;
  std::int64_t heads = 8;
  std::int64_t head_dim = 64;
  int ranks = 2;
  int threads = 1;
  int rounds = 3;
  bool backward = false;
  bool mpi = false;
  headway::DType dtype = headway::DType::float32;
  SequenceMethod method = SequenceMethod::ring;
  SequenceLayout layout = SequenceLayout::zigzag;
};

RingBenchOptions parse(int count, char** arguments) {
  RingBenchOptions options;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i], value = i + 1 < count ? arguments[i + 1] : "";
    if (name == "--backward") options.backward = true;
    if (name == "--mpi") options.mpi = true;
    if (name == "--length") options.length = std::stoll(value);
    if (name == "--heads") options.heads = std::stoll(value);
    if (name == "--head-dim") options.head_dim = std::stoll(value);
    if (name == "--ranks") options.ranks = std::stoi(value);
    if (name == "--threads") options.threads = std::stoi(value);
    if (name == "--rounds") options.rounds = std::stoi(value);
    if (name == "--dtype" && value == "bfloat16") options.dtype = headway::DType::bfloat16;
    if (name == "--dtype" && value == "float16") options.dtype = headway::DType::float16;
    if (name == "--method" && value == "ulysses") options.method = SequenceMethod::ulysses;
    if (name == "--layout" && value == "contiguous") options.layout = SequenceLayout::contiguous;
  }
  return options;
}

using Clock = std::chrono::steady_clock;

// What all threads of this process have used.
double processor_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Inputs {
  Tensor query, key, value, d_output;  // [1, heads, length, head_dim]
};

Inputs whole_inputs(const RingBenchOptions& options) {
  const auto draw = [&](std::uint64_t seed) {
    return Tensor::randn({1, options.heads, options.length, options.head_dim}, seed, options.dtype);
  };
  return {draw(1), draw(2), draw(3), draw(4)};
}

Inputs share_of(const Inputs& whole, const SequenceShares& shares, int rank) {
  const auto take = [&](const Tensor& tensor) { return shares.take(tensor, rank, 2); };
  return {take(whole.query), take(whole.key), take(whole.value), take(whole.d_output)};
}

const headway::AttentionOptions kCausal = {.causal = headway::Causal::top_left};

// The output, or with a backward the gradient of the keys.
template <typename Attend>
Tensor compute(const Inputs& inputs, bool backward, const Attend& attend) {
  if (!backward) return attend(inputs).output;
  Inputs leaves = inputs;
  for (Tensor* tensor : {&leaves.query, &leaves.key, &leaves.value}) *tensor = tensor->detach().set_requires_grad();
  attend(leaves).output.backward(inputs.d_output);
  return leaves.key.grad();
}

// What a rank has measured in each round.
struct Measured {
  std::vector<double> one_rank, ranks, waited;
  std::vector<double> one_processor, ranks_processor;  // the processors' time, where other programs use them too
  double error = 0;                                    // the largest difference from one rank, of the largest magnitude
};

double difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector(), y = b.to_vector();
  double largest = 0, magnitude = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    largest = std::max(largest, std::abs(x[i] - y[i]));
    magnitude = std::max(magnitude, std::abs(y[i]));
  }
  return largest / magnitude;
}

// Waits without using a processor, as the barriers of some engines do.
void sleep_until(const headway::Transfer& transfer) {
  while (!transfer.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  transfer.wait();
}

class RingBench {
 public:
  RingBench(const RingBenchOptions& options, const Communicator& ranks)
      : options_(options), ranks_(ranks), shares_(options.length, ranks.size(), options.layout) {
    const Inputs whole = whole_inputs(options);
    share_ = share_of(whole, shares_, ranks.rank());
    if (ranks.rank() == 0) whole_ = whole;
  }

  Measured run() {
    Measured measured;
    Tensor expected, found;
    for (int round = 0; round <= options_.rounds; ++round) {  // the first warms up
      const double start = processor_seconds();
      const double one = time_one_rank(expected);
      const double middle = processor_seconds();
      const double waited = ranks_.counts().seconds_waited;
      const double all = time_ranks(found);
      // Ranks that are threads read the same clock.
      const double used = options_.mpi ? ranks_.all_reduce(processor_seconds() - middle) : processor_seconds() - middle;
      ranks_.barrier();
      if (round == 0) continue;
      measured.one_processor.push_back(middle - start);
      measured.ranks_processor.push_back(used);
      measured.one_rank.push_back(one);
      measured.ranks.push_back(all);
      measured.waited.push_back(ranks_.counts().seconds_waited - waited);
    }
    const Tensor gathered = shares_.gather(found, 2, ranks_);
    if (ranks_.rank() == 0) measured.error = difference(gathered, expected);
    return measured;
  }

 private:
  // On rank 0; the others sleep meanwhile.
  double time_one_rank(Tensor& result) const {
    const Tensor signal = Tensor::zeros({1});
    if (ranks_.rank() != 0) {
      sleep_until(ranks_.start_messages({}, {{signal, 0}}));
      return 0;
    }
    headway::set_num_threads(ranks_.size() * options_.threads);
    const Clock::time_point start = Clock::now();
    result = compute(whole_, options_.backward, [](const Inputs& inputs) {
      return headway::attention(inputs.query, inputs.key, inputs.value, kCausal);
    });
    const double seconds = seconds_since(start);
    headway::set_num_threads(options_.threads);
    std::vector<Communicator::Sent> sent;
    for (int rank = 1; rank < ranks_.size(); ++rank) sent.push_back({signal, rank});
    ranks_.start_messages(sent, {}).wait();
    return seconds;
  }

  double time_ranks(Tensor& result) const {
    ranks_.barrier();
    const Clock::time_point start = Clock::now();
    result = compute(share_, options_.backward, [&](const Inputs& inputs) {
      return headway::sequence_attention(inputs.query, inputs.key, inputs.value, kCausal, ranks_,
                                         {.query_shares = shares_, .key_shares = shares_, .method = options_.method});
    });
    return ranks_.all_reduce(seconds_since(start), headway::Reduce::max);
  }

  const RingBenchOptions& options_;
  const Communicator& ranks_;
  const SequenceShares shares_;
  Inputs whole_, share_;
};

void report(const RingBenchOptions& options, int ranks, const Measured& measured) {
  const double one = median(measured.one_rank), all = median(measured.ranks);
  std::printf("causal attention%s, %lld tokens, %lld heads of %lld, %s: 1 rank x %d threads %.3f s, ",
              options.backward ? " forward and backward" : " forward", static_cast<long long>(options.length),
              static_cast<long long>(options.heads), static_cast<long long>(options.head_dim),
              std::string(dtype_name(options.dtype)).c_str(), ranks * options.threads, one);
  std::printf(
      "%d ranks x %d threads %.3f s, ratio %.3f (%.3f of the processors' time); rank 0 waited %.3f s; "
      "largest difference %.1e\n",
      ranks, options.threads, all, one / all, median(measured.one_processor) / median(measured.ranks_processor),
      median(measured.waited), measured.error);
}

}  // namespace

int main(int count, char** arguments) {
  RingBenchOptions options = parse(count, arguments);
  if (!options.mpi) options.threads = 1;  // ranks that are threads have no others
  headway::set_num_threads(options.threads);
  const double tolerance = options.dtype == headway::DType::float32 ? 1e-5 : 2e-2;
  bool is_right = true;
  const auto work = [&](const Communicator& ranks) {
    const Measured measured = RingBench(options, ranks).run();
    if (ranks.rank() != 0) return;
    report(options, ranks.size(), measured);
    is_right = measured.error <= tolerance;
  };
  if (options.mpi) {
    work(Communicator::mpi());
  } else {
    headway::run_ranks(options.ranks, work);
  }
  if (!is_right) std::fprintf(stderr, "ring_bench: the results differ by more than rounding\n");
  return is_right ? 0 : 1;
}
