// A decoder of GPT-2's size with random weights: tokens per second of one stream and of a prompt, beside what the
// machine can read and multiply in the same run.
//   generate_bench [--threads N] [--prompt N] [--tokens N] [--rounds N] [--dtype float32|bfloat16|float16]
//                  [--clock wall|processor]    (the processor's time of one thread, where others use the machine too)
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "headway/headway.h"
#include "headway/text_generator.h"
#include "headway/threads.h"
#include "peak.h"

namespace {

constexpr const char* kConfig = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
  "vocab_size": 32000, "hidden_size": 768, "num_attention_heads": 12, "num_key_value_heads": 12,
  "num_hidden_layers": 12, "intermediate_size": 2048, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5})";

struct BenchOptions {
  int threads = 1;
  std::int64_t prompt = 512;
  std::int64_t tokens = 64;
  int rounds = 5;
  headway::DType dtype = headway::DType::float32;
  clockid_t clock = CLOCK_MONOTONIC;
};

BenchOptions parse(int count, char** arguments) {
  BenchOptions options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = arguments[i], value = arguments[i + 1];
    if (name == "--threads") options.threads = std::stoi(value);
    if (name == "--prompt") options.prompt = std::stoll(value);
    if (name == "--tokens") options.tokens = std::stoll(value);
    if (name == "--clock" && value == "processor") options.clock = CLOCK_PROCESS_CPUTIME_ID;
    if (name == "--rounds") options.rounds = std::stoi(value);
    if (name == "--dtype" && value == "bfloat16") options.dtype = headway::DType::bfloat16;
    if (name == "--dtype" && value == "float16") options.dtype = headway::DType::float16;
  }
  return options;
}

double seconds_of(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Weights that a step reads: all but the embedding, of which it reads one row.
double weight_bytes(const headway::TransformerModel& model) {
  double bytes = 0;
  for (const auto& [name, tensor] : model.state_dict()) {
    if (name == "embedding.weight") continue;
    bytes += static_cast<double>(tensor.element_count()) * static_cast<double>(item_size(tensor.dtype()));
  }
  return bytes;
}

}  // namespace

int main(int count, char** arguments) {
  const BenchOptions options = parse(count, arguments);
  headway::set_num_threads(options.threads);
  const headway::TransformerModel model = headway::TransformerModel::from_config(kConfig, options.dtype);
  model.eval();
  const headway::TextGenerator generator(model);
  const double bytes = weight_bytes(model), weights = bytes / static_cast<double>(item_size(options.dtype));
  const bench::ReadBandwidth reads;
  std::vector<std::int64_t> prompt;
  for (std::int64_t i = 0; i < options.prompt; ++i) prompt.push_back((i * 7919 + 11) % 32000);
  std::vector<double> bandwidth, stream, prompts, shares, peaks;
  for (int round = 0; round < options.rounds; ++round) {
    bandwidth.push_back(reads.measure(options.threads));
    double start = seconds_of(options.clock);
    double first = 0;
    std::int64_t steps = 0;
    generator.generate(
        std::vector<std::int64_t>{1},
        {.max_new_tokens = options.tokens + 1, .ignore_end = true, .on_token = [&](std::int64_t, double) {
           if (steps++ == 0) first = (seconds_of(options.clock) - start);
           return true;
         }});
    stream.push_back(static_cast<double>(options.tokens) / (seconds_of(options.clock) - start - first));
    shares.push_back(bytes * stream.back() / 1e9 / bandwidth.back());
    peaks.push_back(bench::float32_peak(options.threads));
    start = seconds_of(options.clock);
    generator.generate(prompt, {.max_new_tokens = 1, .ignore_end = true});
    prompts.push_back(static_cast<double>(options.prompt) / (seconds_of(options.clock) - start));
  }
  const double per_token = 2 * weights / 1e9;  // with the output, of which a prompt needs one row
  std::printf("%d thread(s), %s\n", options.threads, std::string(dtype_name(options.dtype)).c_str());
  std::printf("one stream: %.1f tokens/s, %.1f GB/s of weights, read bandwidth %.1f GB/s, share %.0f%%\n",
              median(stream), bytes * median(stream) / 1e9, median(bandwidth), 100 * median(shares));
  std::printf("prompt of %lld: %.0f tokens/s; peak %.0f GFLOP/s, which is %.0f tokens/s of the layers' products\n",
              static_cast<long long>(options.prompt), median(prompts), median(peaks),
              median(peaks) / (per_token - 2 * 32000 * 768 / 1e9));
  return EXIT_SUCCESS;
}
