// Matrix products of a Transformer's sizes beside PyTorch's and OpenBLAS's: the same inputs, the same threads,
// interleaved calls into memory that is there already.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/registry.h"
#include "flags.h"
#include "measure.h"
#include "peak.h"
#include "report.h"
#include "workload.h"

namespace {

using headway::internal::MatmulProblem;
using headway::internal::Matrix;

const bench::FlagDefaults kDefaults = {.program = "matmul_bench",
                                       .example = "f32 forward 256x512x2048",
                                       .seconds_per_row = 1,
                                       .quick_seconds_per_row = 0.1};

// The three products of a linear layer y = x W^T.
enum class Pass { forward, d_input, d_weight };
constexpr Pass kPasses[] = {Pass::forward, Pass::d_input, Pass::d_weight};

const char* pass_name(Pass pass) {
  static constexpr const char* kNames[] = {"forward", "d_input", "d_weight"};
  return kNames[static_cast<int>(pass)];
}

// One of the products of a linear layer.
struct Product {
  headway::DType dtype;
  Pass pass;
  std::int64_t tokens, in, out;

  std::string group() const { return dtype == headway::DType::float32 ? "f32" : "bf16"; }
  std::string shape() const { return std::to_string(tokens) + "x" + std::to_string(in) + "x" + std::to_string(out); }
  std::string name() const { return group() + " " + pass_name(pass) + " " + shape(); }
  double flops() const {
    return 2.0 * static_cast<double>(tokens) * static_cast<double>(in) * static_cast<double>(out);
  }
};

// Layers of width 256 to 2048 (projections, the fused one of query, key and value, feed-forward), and vocabularies.
std::vector<Product> all_products() {
  struct Layer {
    std::int64_t in, out;
  };
  std::vector<Layer> layers;
  for (const std::int64_t width : {256, 512, 1024}) {
    layers.insert(layers.end(), {{width, width}, {width, 3 * width}, {width, 4 * width}, {4 * width, width}});
  }
  layers.push_back({2048, 2048});
  for (const std::int64_t words : {8000, 32000}) layers.insert(layers.end(), {{256, words}, {512, words}});
  std::vector<Product> products;
  for (const auto dtype : {headway::DType::float32, headway::DType::bfloat16}) {
    for (const auto [in, out] : layers) {
      for (const std::int64_t tokens : {16, 64, 256, 1024, 8192}) {
        if (tokens * out > std::int64_t{64} << 20) continue;  // logits that no batch has at once
        for (const Pass pass : kPasses) products.push_back({dtype, pass, tokens, in, out});
      }
    }
  }
  return products;
}

// OpenBLAS, where the machine has it.
class OpenBlas {
 public:
  OpenBlas() {
    void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    sgemm_ = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
    set_threads_ = reinterpret_cast<SetThreads>(dlsym(library, "openblas_set_num_threads"));
  }
  bool present() const { return sgemm_ && set_threads_; }
  void set_threads(int count) const {
    if (present()) set_threads_(count);
  }
  // result = a b for matrices whose rows or columns are contiguous.
  void multiply(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result) const {
    constexpr int kRowMajor = 101;
    const auto order = [](const at::Tensor& m) { return m.stride(1) == 1 ? 111 : 112; };
    const auto stride = [](const at::Tensor& m) { return static_cast<int>(std::max(m.stride(0), m.stride(1))); };
    sgemm_(kRowMajor, order(a), order(b), static_cast<int>(a.size(0)), static_cast<int>(b.size(1)),
           static_cast<int>(a.size(1)), 1, a.const_data_ptr<float>(), stride(a), b.const_data_ptr<float>(), stride(b),
           0, result.data_ptr<float>(), stride(result));
  }

 private:
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  using SetThreads = void (*)(int);
  Sgemm sgemm_ = nullptr;
  SetThreads set_threads_ = nullptr;
};

const OpenBlas& open_blas() {
  static const OpenBlas library;
  return library;
}

// The operands of a case, seen as result = a b.
struct Operands {
  at::Tensor a, b;
  at::Tensor headway, torch, other;  // results
};

Operands make_operands(const Product& c) {
  const auto dtype = c.dtype == headway::DType::bfloat16 ? at::kBFloat16 : at::kFloat;
  const at::Tensor x = at::randn({c.tokens, c.in}).to(dtype);
  const at::Tensor weight = at::randn({c.out, c.in}).to(dtype);
  const at::Tensor d_y = c.pass == Pass::forward ? at::Tensor() : at::randn({c.tokens, c.out}).to(dtype);
  Operands o;
  o.a = c.pass == Pass::forward ? x : (c.pass == Pass::d_input ? d_y : d_y.t());
  o.b = c.pass == Pass::forward ? weight.t() : (c.pass == Pass::d_input ? weight : x);
  for (at::Tensor* result : {&o.headway, &o.torch, &o.other}) {
    *result = at::empty({o.a.size(0), o.b.size(1)}, o.a.options()).zero_();
  }
  return o;
}

Matrix matrix_of(const at::Tensor& m, headway::DType dtype) {
  return {.data = static_cast<std::byte*>(m.data_ptr()),
          .row_stride = m.stride(0),
          .column_stride = m.stride(1),
          .batch_stride = 0,
          .dtype = dtype};
}

struct Row {
  Product what;
  int threads = 1;
  bench::Timing headway = {}, torch = {}, other = {};  // other: OpenBLAS, where it can
  double limit = 0;                                    // the measured peak in GFLOP/s
  double error = 0;
  double tolerance = 0;
  std::string failure = {};

  double ratio() const { return torch.milliseconds / headway.milliseconds; }
  double other_ratio() const { return other.milliseconds / headway.milliseconds; }
  double share(const bench::Timing& timing) const { return what.flops() / (timing.milliseconds * 1e6) / limit; }
};

double largest(const at::Tensor& m) { return m.to(at::kFloat).abs().max().item<double>(); }

Row measure_row(const Product& c, const Operands& o, int threads, const bench::Flags& flags) {
  const MatmulProblem problem = {.batch = 1,
                                 .rows = o.a.size(0),
                                 .columns = o.b.size(1),
                                 .depth = o.a.size(1),
                                 .a = matrix_of(o.a, c.dtype),
                                 .b = matrix_of(o.b, c.dtype),
                                 .result = matrix_of(o.headway, c.dtype)};
  at::Tensor torch_result = o.torch;
  std::vector<bench::Contender> contenders = {
      {"Headway", [&, &cpu = headway::internal::backend_of(headway::Device::cpu())] { cpu.matmul(problem); }},
      {"PyTorch", [&] { at::mm_out(torch_result, o.a, o.b); }}};
  const bool with_other = open_blas().present() && c.dtype == headway::DType::float32;
  if (with_other) contenders.push_back({"OpenBLAS", [&] { open_blas().multiply(o.a, o.b, o.other); }});

  Row row;
  row.what = c;
  row.threads = threads;
  row.tolerance = c.dtype == headway::DType::bfloat16 ? 1e-2 : 1e-5;
  for (const auto& contender : contenders) contender.call();
  row.error = largest(o.headway - o.torch) / largest(o.torch);
  if (with_other) row.error = std::max(row.error, largest(o.headway - o.other) / largest(o.other));
  if (!(row.error <= row.tolerance)) {
    row.failure = "the results differ by " + std::to_string(row.error) + " of the largest element";
    return row;
  }
  const auto peak = [&] {
    return c.dtype == headway::DType::bfloat16 ? bench::bfloat16_peak(threads) : bench::float32_peak(threads);
  };
  std::vector<double> limits = {peak()};
  const auto timings = bench::measure_interleaved(contenders, {.seconds = flags.seconds_per_row,
                                                               .min_rounds = flags.min_rounds,
                                                               .threads = threads,
                                                               .every_round = [&] { limits.push_back(peak()); }});
  row.headway = timings[0];
  row.torch = timings[1];
  if (with_other) row.other = timings[2];
  // Whatever else runs on the machine only lowers a sample, so the upper quartile is nearer to the truth.
  row.limit = bench::quantile(limits, 0.75);
  return row;
}

void print_heading(const std::string& group) {
  std::printf("\n%-28s %3s %18s %18s %18s %6s %8s %8s %8s\n", (group + " tokens x in x out").c_str(), "thr",
              "Headway ms", "PyTorch ms", "OpenBLAS ms", "ratio", "OpenBLAS", "Headway", "PyTorch");
}

void print_row(const Row& row) {
  const std::string name = row.what.name().substr(row.what.group().size() + 1);
  if (!row.failure.empty()) {
    std::printf("  %-26s %3d  FAIL: %s\n", name.c_str(), row.threads, row.failure.c_str());
  } else {
    std::printf("  %-26s %3d", name.c_str(), row.threads);
    for (const bench::Timing* timing : {&row.headway, &row.torch, &row.other}) {
      if (timing->rounds > 0) {
        std::printf(" %11.3f +-%3.0f%%", timing->milliseconds, 100 * timing->spread);
      } else {
        std::printf(" %18s", "-");
      }
    }
    std::printf(" %6.2f", row.ratio());
    row.other.rounds > 0 ? std::printf(" %8.2f", row.other_ratio()) : std::printf(" %8s", "-");
    std::printf(" %7.1f%% %7.1f%%\n", 100 * row.share(row.headway), 100 * row.share(row.torch));
  }
  std::fflush(stdout);
}

// The geometric mean and the lowest of some rows' ratios.
struct Mean {
  std::string group;
  int threads;
  double sum = 0;  // of logarithms
  double lowest = 1e300;
  int rows = 0;

  double mean() const { return std::exp(sum / rows); }
};

std::vector<Mean> means_of(const std::vector<Row>& rows) {
  std::vector<Mean> means;
  for (const Row& row : rows) {
    if (!row.failure.empty()) continue;
    const std::string group = row.what.group() + " " + pass_name(row.what.pass);
    auto mean = std::find_if(means.begin(), means.end(),
                             [&](const Mean& m) { return m.group == group && m.threads == row.threads; });
    if (mean == means.end()) mean = means.insert(means.end(), Mean{.group = group, .threads = row.threads});
    mean->sum += std::log(row.ratio());
    mean->lowest = std::min(mean->lowest, row.ratio());
    mean->rows += 1;
  }
  return means;
}

void write_json(const std::string& path, const bench::Machine& machine, const std::vector<Row>& rows) {
  std::ofstream out(path);
  out << "{\n  \"kind\": \"matmul\",\n  \"date\": \"" << machine.date << "\",\n  \"cpu\": \"" << machine.cpu
      << "\",\n  \"instruction_set\": \"" << machine.instruction_set
      << "\",\n  \"max_threads\": " << machine.max_threads << ",\n  \"torch\": \"" << machine.torch
      << "\",\n  \"other_load\": " << machine.other_load << ",\n  \"groups\": [";
  const char* separator = "\n    ";
  for (const Mean& mean : means_of(rows)) {
    out << separator << "{\"group\": \"" << mean.group << "\", \"threads\": " << mean.threads
        << ", \"geometric_mean\": " << mean.mean() << ", \"lowest\": " << mean.lowest << "}";
    separator = ",\n    ";
  }
  out << "\n  ],\n  \"rows\": [";
  separator = "\n    ";
  for (const Row& row : rows) {
    const Product& c = row.what;
    out << separator << "{\"group\": \"" << c.group() << "\", \"name\": \"" << c.name() << "\", \"shape\": \""
        << c.shape() << "\", \"dtype\": \"" << c.group() << "\", \"pass\": \"" << pass_name(c.pass)
        << "\", \"tokens\": " << c.tokens << ", \"in\": " << c.in << ", \"out\": " << c.out
        << ", \"threads\": " << row.threads << ", \"failure\": ";
    row.failure.empty() ? out << "null" : out << '"' << row.failure << '"';
    if (row.failure.empty()) {
      out << ", \"headway_ms\": " << row.headway.milliseconds << ", \"torch_ms\": " << row.torch.milliseconds
          << ", \"ratio\": " << row.ratio() << ", \"headway_spread\": " << row.headway.spread
          << ", \"torch_spread\": " << row.torch.spread << ", \"rounds\": " << row.headway.rounds
          << ", \"limit\": \"GFLOP/s\", \"limit_value\": " << row.limit
          << ", \"headway_share\": " << row.share(row.headway) << ", \"torch_share\": " << row.share(row.torch);
      if (row.other.rounds > 0) {
        out << ", \"openblas_ms\": " << row.other.milliseconds << ", \"openblas_ratio\": " << row.other_ratio();
      }
    }
    out << ", \"error\": " << row.error << ", \"tolerance\": " << row.tolerance << "}";
    separator = ",\n    ";
  }
  out << "\n  ]\n}\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

int run(const bench::Flags& flags) {
  std::vector<Product> products = all_products();
  if (flags.choose(products, [](const Product& product) { return product.name(); })) return 0;

  const bench::OtherLoad other_load;
  bench::Machine machine = bench::describe_machine();
  bench::print_machine(machine);
  const std::vector<int> thread_counts = flags.thread_counts(machine.max_threads);
  std::vector<Row> rows;
  for (const Product& c : products) {
    if (rows.empty() || rows.back().what.group() != c.group()) print_heading(c.group());
    const Operands operands = make_operands(c);
    for (const int threads : thread_counts) {
      bench::set_threads(threads);
      open_blas().set_threads(threads);
      rows.push_back(measure_row(c, operands, threads, flags));
      print_row(rows.back());
    }
  }
  std::printf("\n%-28s %3s %10s %10s %6s\n", "PyTorch's time / Headway's", "thr", "mean", "lowest", "rows");
  for (const Mean& mean : means_of(rows)) {
    std::printf("  %-26s %3d %10.2f %10.2f %6d\n", mean.group.c_str(), mean.threads, mean.mean(), mean.lowest,
                mean.rows);
  }
  machine.other_load = other_load.share();
  bench::print_other_load(machine);
  if (!flags.json.empty()) write_json(flags.json, machine, rows);
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.failure.empty(); }) ? 0 : 1;
}

}  // namespace

int main(int argument_count, char** arguments) { return bench::run_program(argument_count, arguments, kDefaults, run); }
