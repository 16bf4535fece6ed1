// Headway beside PyTorch in one process: the same inputs, the same threads, interleaved calls.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "case.h"
#include "flags.h"
#include "list_bench.h"
#include "measure.h"
#include "peak.h"
#include "report.h"
#include "workload.h"

namespace {

const bench::FlagDefaults kDefaults = {.program = "attention_bench",
                                       .example = "f32 forward 2048x64 causal",
                                       .seconds_per_row = 4,
                                       .quick_seconds_per_row = 0.3,
                                       .measures_cases = true};

// What the machine could do at best for this case, sampled once.
double sample_limit(const bench::Case& c, int threads) {
  if (c.decoding()) {
    static const bench::ReadBandwidth bandwidth;
    return bandwidth.measure(threads);
  }
  return c.dtype == headway::DType::bfloat16 ? bench::bfloat16_peak(threads) : bench::float32_peak(threads);
}

bench::Row measure_row(const bench::Case& c, const bench::Workload& workload, int threads, const bench::Flags& flags) {
  bench::Row row;
  row.what = c;
  row.threads = threads;
  row.tolerance = workload.tolerance;
  row.error = workload.error();
  if (!(row.error <= row.tolerance)) {
    std::ostringstream message;
    message << "wrong result: relative error " << row.error << ", tolerance " << row.tolerance;
    row.failure = message.str();
    return row;
  }

  std::vector<bench::Contender> contenders = {workload.headway};
  contenders.insert(contenders.end(), workload.torch.begin(), workload.torch.end());
  if (workload.headway_plain) contenders.push_back(*workload.headway_plain);
  std::vector<double> limits = {sample_limit(c, threads)};
  const auto timings = bench::measure_interleaved(
      contenders,
      {.seconds = flags.seconds_per_row, .min_rounds = flags.min_rounds, .threads = threads, .every_round = [&] {
         limits.push_back(sample_limit(c, threads));
       }});

  const auto first = timings.begin() + 1, last = first + static_cast<std::ptrdiff_t>(workload.torch.size());
  const auto fastest =
      std::min_element(first, last, [](const auto& a, const auto& b) { return a.milliseconds < b.milliseconds; });
  row.headway = timings[0];
  row.torch = *fastest;
  row.torch_path = workload.torch[static_cast<std::size_t>(fastest - first)].name;
  row.ratio = row.torch.milliseconds / row.headway.milliseconds;
  // Whatever else runs on the machine only lowers a sample, so the upper quartile is nearer to the truth.
  row.limit = bench::quantile(limits, 0.75);
  const double work = c.decoding() ? c.bytes_read() : c.useful_flops();
  row.headway_share = work / (row.headway.milliseconds * 1e6) / row.limit;
  row.torch_share = work / (row.torch.milliseconds * 1e6) / row.limit;
  if (workload.headway_plain) row.weights_cost = row.headway.milliseconds / timings.back().milliseconds;
  return row;
}

// The row for every number of threads; an exception of either side becomes a failed row.
std::vector<bench::Row> run_case(const bench::Case& c, const std::vector<int>& thread_counts,
                                 const bench::Flags& flags) {
  std::vector<bench::Row> rows;
  try {
    bench::set_threads(thread_counts.back());
    const bench::Workload workload = bench::make_workload(c);
    for (const int threads : thread_counts) {
      bench::set_threads(threads);
      rows.push_back(measure_row(c, workload, threads, flags));
      bench::print_row(rows.back());
    }
  } catch (const std::exception& error) {
    const std::string message = error.what();
    bench::Row row;
    row.what = c;
    row.threads = thread_counts.at(std::min(rows.size(), thread_counts.size() - 1));
    row.failure = message.substr(0, message.find('\n'));
    rows.push_back(row);
    bench::print_row(row);
  }
  return rows;
}

int run(const bench::Flags& flags) {
  if (flags.cases) return bench::measure_list(flags);
  std::vector<bench::Case> cases = bench::table_cases();
  if (flags.choose(cases, [](const bench::Case& c) { return c.row_name(); })) return 0;

  const bench::OtherLoad other_load;
  bench::Machine machine = bench::describe_machine();
  bench::print_machine(machine);
  const std::vector<int> thread_counts = flags.thread_counts(machine.max_threads);

  std::vector<bench::Row> rows;
  for (const bench::Case& c : cases) {
    if (rows.empty() || rows.back().what.group != c.group) bench::print_group_heading(c.group);
    const auto of_case = run_case(c, thread_counts, flags);
    rows.insert(rows.end(), of_case.begin(), of_case.end());
  }
  bench::print_means(rows);
  machine.other_load = other_load.share();
  bench::print_other_load(machine);
  if (!flags.json.empty()) bench::write_json(flags.json, machine, rows);
  return std::all_of(rows.begin(), rows.end(), [](const bench::Row& row) { return row.failure.empty(); }) ? 0 : 1;
}

}  // namespace

int main(int argument_count, char** arguments) { return bench::run_program(argument_count, arguments, kDefaults, run); }
