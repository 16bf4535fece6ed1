// Training steps of a translator of the shipped model's size: ranks of one thread each beside one rank with as many
// threads, in turn.
//   ninja train_ranks_bench && build/release/bench/train_ranks_bench [--ranks 2] [--rounds 5] [--tokens 12000]
//   mpirun -n 2 build/release/bench/train_ranks_bench --mpi
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "headway/communicator.h"
#include "headway/ops.h"
#include "headway/optimizer.h"
#include "headway/random.h"
#include "headway/threads.h"
#include "headway/training.h"
#include "headway/translation_model.h"

namespace {

using headway::Communicator;
using headway::Tensor;

constexpr std::int64_t kVocabulary = 8000, kLength = 32;  // tokens of a source and of a target
constexpr std::int64_t kStepsPerRound = 3;                // of which the first is not counted

struct Settings {
  int ranks = 2;
  int rounds = 5;
  std::int64_t tokens = 12000;  // of a batch, source and target
  bool mpi = false;
};

headway::TranslationModelOptions model_options() {
  headway::TranslationModelOptions options;
  options.vocab_size = kVocabulary;
  options.d_model = 256;
  options.encoder_layers = options.decoder_layers = 4;
  options.encoder_attention_heads = options.decoder_attention_heads = 8;
  options.encoder_ffn_dim = options.decoder_ffn_dim = 1024;
  options.dropout = 0.15;
  options.pad_token_id = options.decoder_start_token_id = kVocabulary - 1;
  return options;
}

// One rank's model, which goes on from round to round.
struct Trainee {
  headway::TranslationModel model{model_options()};
  headway::AdamW optimizer{model, {.beta2 = 0.98, .epsilon = 1e-9}};

  // The tokens per second of all ranks in the counted steps.
  std::vector<double> train(const Settings& settings, const Communicator& ranks, std::int64_t accumulate) {
    const std::int64_t rows = settings.tokens / (2 * kLength);
    const auto loss_of = [&](const headway::BatchPosition& position) -> headway::BatchLoss {
      std::mt19937_64 random(static_cast<std::uint64_t>(position.index));
      std::vector<std::int64_t> ids(static_cast<std::size_t>(rows * (2 * kLength + 1)));
      for (std::int64_t& id : ids) id = static_cast<std::int64_t>(random() % (kVocabulary - 1));
      const Tensor all = Tensor::from(ids, {rows, 2 * kLength + 1});
      const Tensor target = all.slice(1, kLength, 2 * kLength).contiguous();
      const Tensor labels = all.slice(1, kLength + 1, 2 * kLength + 1).contiguous();
      const Tensor source = all.slice(1, 0, kLength).contiguous();
      const Tensor logits = model.forward({.source = source, .source_lengths = {}, .target = target}).logits;
      return {.loss = headway::cross_entropy(logits, labels, {.label_smoothing = 0.1}), .tokens = rows * 2 * kLength};
    };
    std::vector<double> speeds;
    headway::TrainingOptions options{.steps = kStepsPerRound, .accumulate = accumulate, .clip_norm = 1.0};
    options.ranks = ranks;
    options.on_step = [&](const headway::StepReport& report) {
      if (report.step == 1) return;
      speeds.push_back(report.tokens_per_second);
      waiting = report.waiting;
    };
    headway::train(model, optimizer, headway::constant_schedule(1e-4), loss_of, options);
    return speeds;
  }

  double waiting = 0.0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void append(std::vector<double>& all, const std::vector<double>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void print(const Settings& settings, const std::string& kind, const std::vector<double>& apart,
           const std::vector<double>& together, double waiting) {
  const double a = median(apart), b = median(together);
  std::printf(
      "%d ranks x 1 thread (%s): %.0f tokens/s, %.1f%% waiting; 1 rank x %d threads: %.0f tokens/s; ratio %.3f\n",
      settings.ranks, kind.c_str(), a, 100.0 * waiting, settings.ranks, b, a / b);
}

void run_local(const Settings& settings) {
  std::vector<Trainee> ranks(static_cast<std::size_t>(settings.ranks));
  Trainee alone;
  std::vector<double> apart, together;
  for (int round = 0; round < settings.rounds; ++round) {
    headway::set_num_threads(1);
    headway::run_ranks(settings.ranks, [&](const Communicator& all) {
      const std::vector<double> speeds = ranks[static_cast<std::size_t>(all.rank())].train(settings, all, 1);
      if (all.rank() == 0) append(apart, speeds);
    });
    headway::set_num_threads(settings.ranks);
    append(together, alone.train(settings, {}, settings.ranks));
  }
  print(settings, "threads of one process", apart, together, ranks[0].waiting);
}

// Waits for rank 0 without taking processor time from it.
void wait_asleep(const Communicator& all) {
  const Tensor word = Tensor::zeros({1});
  if (all.rank() == 0) {
    std::vector<Communicator::Sent> sent;
    for (int to = 1; to < all.size(); ++to) sent.push_back({word, to});
    return all.start_messages(sent, {}).wait();
  }
  const headway::Transfer transfer = all.start_messages({}, {{word, 0}});
  while (!transfer.done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  transfer.wait();
}

void run_mpi(Settings settings) {
  const Communicator all = Communicator::world();
  settings.ranks = all.size();
  headway::set_random_seed(1);
  Trainee rank;
  std::optional<Trainee> alone;
  if (all.rank() == 0) alone.emplace();
  std::vector<double> apart, together;
  for (int round = 0; round < settings.rounds; ++round) {
    headway::set_num_threads(1);
    append(apart, rank.train(settings, all, 1));
    headway::set_num_threads(settings.ranks);
    if (alone) append(together, alone->train(settings, {}, settings.ranks));
    wait_asleep(all);
  }
  if (alone) print(settings, all.description(), apart, together, rank.waiting);
}

}  // namespace

int main(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--mpi") {
      settings.mpi = true;
    } else if (i + 1 < count && name == "--ranks") {
      settings.ranks = std::atoi(arguments[++i]);
    } else if (i + 1 < count && name == "--rounds") {
      settings.rounds = std::atoi(arguments[++i]);
    } else if (i + 1 < count && name == "--tokens") {
      settings.tokens = std::atoll(arguments[++i]);
    } else {
      std::fprintf(stderr, "usage: %s [--ranks N] [--rounds N] [--tokens N] [--mpi]\n", arguments[0]);
      return 2;
    }
  }
  settings.mpi ? run_mpi(settings) : run_local(settings);
}
