// Products in 8 bits beside what the machine can multiply or read in the same run, and beside the same products in
// float32, in turns. Other programs only make a call slower, so the best time counts.
//   quantized_bench [--threads N] [--seconds S] [--plain] [TOKENSxINxOUT[:ACTIVATION] ...]
// --plain prints one line per shape, name and milliseconds, for quantized_torch.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "headway/threads.h"
#include "ops/quantized.h"
#include "peak.h"

namespace {

using headway::Activation;
using headway::Tensor;
using namespace headway::internal;
using Clock = std::chrono::steady_clock;

struct Shape {
  std::int64_t rows = 0, in = 0, out = 0;
  Activation activation = Activation::none;

  std::string name() const {
    return std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out) +
           (activation == Activation::gelu ? ":gelu" : "");
  }
  double operations() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  }
  double bytes() const { return static_cast<double>(in) * static_cast<double>(out); }  // of the weight in 8 bits
};

struct BenchOptions {
  int threads = 1;
  double seconds = 1;  // for a shape
  bool plain = false;
  std::vector<Shape> shapes = {};
};

Shape parse_shape(const std::string& text) {
  Shape shape;
  char activation[8] = "";
  long long rows = 0, in = 0, out = 0;
  if (std::sscanf(text.c_str(), "%lldx%lldx%lld:%7s", &rows, &in, &out, activation) < 3) {
    std::fprintf(stderr, "quantized_bench: \"%s\" is no shape, expected TOKENSxINxOUT\n", text.c_str());
    std::exit(EXIT_FAILURE);
  }
  shape = {rows, in, out, std::string(activation) == "gelu" ? Activation::gelu : Activation::none};
  return shape;
}

BenchOptions parse(int count, char** arguments) {
  BenchOptions options;
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    if (name == "--plain") {
      options.plain = true;
    } else if (name == "--threads" && i + 1 < count) {
      options.threads = std::atoi(arguments[++i]);
    } else if (name == "--seconds" && i + 1 < count) {
      options.seconds = std::atof(arguments[++i]);
    } else {
      options.shapes.push_back(parse_shape(name));
    }
  }
  if (options.shapes.empty()) {
    for (const char* text :
         {"896x384x1152", "896x384x1536:gelu", "896x1536x384", "512x768x2048", "32x256x1024", "32x256x8000",
          "8x768x768", "4096x1024x4096", "1x768x2048", "1x4096x14336", "1x2048x128000"}) {
      options.shapes.push_back(parse_shape(text));
    }
  }
  return options;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The seconds of one call: of as many as take about a millisecond, after one that fills the caches.
double sample(const std::function<void()>& call) {
  call();
  for (int calls = 1;; calls *= 4) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) call();
    const double seconds = seconds_since(start);
    if (seconds > 5e-4) return seconds / calls;
  }
}

struct Best {
  double quantized = 1e300, floating = 1e300;  // seconds
  double peak = 0;                             // operations per second
};

Best measure(const Shape& shape, const BenchOptions& options) {
  const Tensor x = Tensor::randn({shape.rows, shape.in}, 1), weight = Tensor::randn({shape.out, shape.in}, 2);
  const Tensor bias = Tensor::randn({shape.out}, 3);
  const PackedWeight quantized = pack_weight(quantize_weight(weight), bias);
  const PackedWeight floating = options.plain ? PackedWeight() : pack_weight(weight, bias);
  const LinearStepOptions step = {.activation = shape.activation};
  Best best;
  const auto start = Clock::now();
  do {
    best.quantized = std::min(best.quantized, sample([&] { linear_step(x, quantized, step); }));
    if (options.plain) continue;
    best.peak = std::max(best.peak, bench::int8_peak(options.threads) * 1e9);
    best.floating = std::min(best.floating, sample([&] { linear_step(x, floating, step); }));
  } while (seconds_since(start) < options.seconds);
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  const BenchOptions options = parse(count, arguments);
  headway::set_num_threads(options.threads);
  if (options.plain) {
    for (const Shape& shape : options.shapes) {
      std::printf("%s %.6f\n", shape.name().c_str(), measure(shape, options).quantized * 1e3);
    }
    return EXIT_SUCCESS;
  }
  const bench::ReadBandwidth reads;
  double bandwidth = 0;
  for (int i = 0; i < 5; ++i) bandwidth = std::max(bandwidth, reads.measure(options.threads));
  std::printf("%d thread(s), %.1f GB/s read\n%-20s %10s %8s %8s %8s %8s\n", options.threads, bandwidth,
              "tokens x in x out", "8 bits ms", "Gop/s", "of peak", "GB/s", "f32 / 8");
  for (const Shape& shape : options.shapes) {
    const Best best = measure(shape, options);
    const double speed = shape.operations() / best.quantized;
    std::printf("%-20s %10.4f %8.0f %7.1f%% %8.1f %8.2f\n", shape.name().c_str(), best.quantized * 1e3, speed * 1e-9,
                100 * speed / best.peak, shape.bytes() / best.quantized * 1e-9, best.floating / best.quantized);
    std::fflush(stdout);
  }
  return EXIT_SUCCESS;
}
