#include "report.h"

#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "headway/info.h"
#include "workload.h"

namespace bench {
namespace {

constexpr double kDoubtfulLoad = 0.03;

struct GroupMean {
  std::string group;
  int threads;
  double mean;  // geometric
  double lowest;
  std::size_t rows;
  bool failed;  // a row of the group has no result
};

// In the order of the table; groups of which every row failed are left out.
std::vector<GroupMean> group_means(const std::vector<Row>& rows) {
  std::vector<GroupMean> means;
  for (const Row& row : rows) {
    GroupMean* mean = nullptr;
    for (auto& one : means) {
      if (one.group == row.what.group && one.threads == row.threads) mean = &one;
    }
    if (!mean) mean = &means.emplace_back(GroupMean{row.what.group, row.threads, 0, 1e300, 0, false});
    if (!row.failure.empty()) {
      mean->failed = true;
      continue;
    }
    mean->mean += std::log(row.ratio);  // the sum of logarithms until all rows are in
    mean->lowest = std::min(mean->lowest, row.ratio);
    mean->rows += 1;
  }
  std::erase_if(means, [](const GroupMean& mean) { return mean.rows == 0; });
  for (auto& mean : means) mean.mean = std::exp(mean.mean / static_cast<double>(mean.rows));
  return means;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') result += '\\';
    result += static_cast<unsigned char>(character) < 0x20 ? ' ' : character;
  }
  return result + "\"";
}

// Six significant digits; null for what JSON cannot say.
std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

std::string json_row(const Row& row) {
  const Case& c = row.what;
  std::ostringstream out;
  out << "{\"group\": " << quoted(c.group) << ", \"name\": " << quoted(c.row_name())
      << ", \"shape\": " << quoted(c.shape_name()) << ", \"dtype\": " << quoted(short_name(c.dtype))
      << ", \"pass\": " << (c.pass == Pass::forward ? "\"forward\"" : "\"backward\"") << ", \"batch\": " << c.batch
      << ", \"heads\": " << c.heads << ", \"kv_heads\": " << c.kv_heads << ", \"query_length\": " << c.query_length
      << ", \"key_length\": " << c.key_length << ", \"head_dim\": " << c.head_dim
      << ", \"causal\": " << (c.is_causal() ? "true" : "false") << ", \"threads\": " << row.threads
      << ", \"headway_ms\": " << number(row.headway.milliseconds)
      << ", \"torch_ms\": " << number(row.torch.milliseconds) << ", \"ratio\": " << number(row.ratio)
      << ", \"headway_spread\": " << number(row.headway.spread) << ", \"torch_spread\": " << number(row.torch.spread)
      << ", \"rounds\": " << row.headway.rounds << ", \"torch_path\": " << quoted(row.torch_path)
      << ", \"limit\": " << (c.decoding() ? "\"read GB/s\"" : "\"GFLOP/s\"")
      << ", \"limit_value\": " << number(row.limit) << ", \"headway_share\": " << number(row.headway_share)
      << ", \"torch_share\": " << number(row.torch_share);
  if (c.with_weights()) out << ", \"weights_cost\": " << number(row.weights_cost);
  out << ", \"error\": " << number(row.error) << ", \"tolerance\": " << number(row.tolerance)
      << ", \"failure\": " << (row.failure.empty() ? "null" : quoted(row.failure)) << "}";
  return out.str();
}

// "AMD EPYC (family 25, model 17)": virtual machines often hide the full name, but not the numbers.
std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, name = "unknown", family, model;
  const auto value = [&line] { return line.substr(line.find(':') + 2); };
  while (std::getline(file, line) && !line.empty()) {
    if (line.find(": ") == std::string::npos) continue;
    if (line.starts_with("model name"))
      name = value();
    else if (line.starts_with("cpu family"))
      family = value();
    else if (line.starts_with("model\t"))
      model = value();
  }
  return family.empty() ? name : name + " (family " + family + ", model " + model + ")";
}

}  // namespace

Machine describe_machine() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char date[16] = {};
  std::strftime(date, sizeof(date), "%Y-%m-%d", &parts);
  return {date,
          cpu_name(),
          headway::instruction_set(),
          static_cast<int>(std::thread::hardware_concurrency()),
          torch_version(),
          0};
}

void print_machine(const Machine& machine) {
  std::printf("%s  %s, %d threads, Headway %s (%s), PyTorch %s\n", machine.date.c_str(), machine.cpu.c_str(),
              machine.max_threads, headway::version().c_str(), machine.instruction_set.c_str(), machine.torch.c_str());
  std::printf(
      "ms: median of one call, +- interquartile range; ratio: PyTorch's time / Headway's;\n"
      "share: of the multiply-add peak measured beside each row (decoding: of the read bandwidth)\n");
}

void print_group_heading(const std::string& group) {
  std::printf("\n%-42s %3s %18s %18s %6s %8s %8s %11s\n", group.c_str(), "thr", "Headway ms", "PyTorch ms", "ratio",
              "Headway", "PyTorch", "of");
}

void print_row(const Row& row) {
  std::string name = row.what.row_name();
  if (name.starts_with(row.what.group)) name = name.substr(row.what.group.size() + 1);
  if (!row.failure.empty()) {
    std::printf("  %-40s %3d  FAIL: %s\n", name.c_str(), row.threads, row.failure.c_str());
  } else {
    std::printf("  %-40s %3d %11.3f +-%3.0f%% %11.3f +-%3.0f%% %6.2f %7.1f%% %7.1f%% %6.1f %s", name.c_str(),
                row.threads, row.headway.milliseconds, 100 * row.headway.spread, row.torch.milliseconds,
                100 * row.torch.spread, row.ratio, 100 * row.headway_share, 100 * row.torch_share, row.limit,
                row.what.decoding() ? "GB/s" : "GF/s");
    if (row.what.with_weights()) std::printf("  %.2f x the plain forward", row.weights_cost);
    if (row.what.uneven() || row.what.decoding()) std::printf("  PyTorch: %s", row.torch_path.c_str());
    std::printf("\n");
  }
  std::fflush(stdout);
}

void print_means(const std::vector<Row>& rows) {
  std::printf("\n%-42s %3s %18s %10s\n", "geometric mean of the ratios", "thr", "mean", "lowest");
  for (const GroupMean& mean : group_means(rows)) {
    std::printf("  %-40s %3d %18.2f %10.2f%s\n", mean.group.c_str(), mean.threads, mean.mean, mean.lowest,
                mean.failed ? "  without the rows that failed" : "");
  }
}

void print_other_load(const Machine& machine) {
  if (machine.other_load < kDoubtfulLoad) return;
  std::printf("\nOther programs took %.0f%% of the machine's time: do not trust these figures.\n",
              100 * machine.other_load);
}

void write_json(const std::string& path, const Machine& machine, const std::vector<Row>& rows) {
  std::ofstream out(path);
  out << "{\n  \"date\": " << quoted(machine.date) << ",\n  \"cpu\": " << quoted(machine.cpu)
      << ",\n  \"instruction_set\": " << quoted(machine.instruction_set)
      << ",\n  \"max_threads\": " << machine.max_threads << ",\n  \"torch\": " << quoted(machine.torch)
      << ",\n  \"other_load\": " << number(machine.other_load) << ",\n  \"groups\": [";
  const char* separator = "\n    ";
  for (const GroupMean& mean : group_means(rows)) {
    out << separator << "{\"group\": " << quoted(mean.group) << ", \"threads\": " << mean.threads
        << ", \"geometric_mean\": " << number(mean.mean) << ", \"lowest\": " << number(mean.lowest) << "}";
    separator = ",\n    ";
  }
  out << "\n  ],\n  \"rows\": [";
  separator = "\n    ";
  for (const Row& row : rows) {
    out << separator << json_row(row);
    separator = ",\n    ";
  }
  out << "\n  ]\n}\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace bench
