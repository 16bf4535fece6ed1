#include "list_bench.h"

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "headway/threads.h"
#include "measure.h"
#include "support/cases.h"

namespace bench {
namespace {

struct ListRow {
  std::string name;
  int threads = 1;
  Timing forward = {}, backward = {};
};

ListRow measure_case(const headway_test::Case& c, int threads, const Flags& flags) {
  headway::set_num_threads(threads);
  headway::AttentionBackward p = headway_test::build(c);
  const auto forward = [&p] { return headway::attention(p.query, p.key, p.value, p.options); };
  p.forward = forward();
  if (p.d_weights.defined()) p.d_weights = p.d_weights.to(p.forward.weights.dtype());
  const std::vector<Timing> timings =
      measure_interleaved({{"forward", [&] { forward(); }}, {"backward", [&] { headway::attention_backward(p); }}},
                          {.seconds = flags.seconds_per_row, .min_rounds = flags.min_rounds, .threads = threads});
  return {headway_test::describe(c), threads, timings[0], timings[1]};
}

void write_list(const std::string& path, const std::vector<ListRow>& rows) {
  std::ofstream out(path);
  out << "{\n  \"kind\": \"attention cases\",\n  \"rows\": [";
  const char* separator = "\n    ";
  for (const ListRow& row : rows) {
    out << separator << "{\"name\": \"" << row.name << "\", \"threads\": " << row.threads
        << ", \"forward_ms\": " << row.forward.milliseconds << ", \"backward_ms\": " << row.backward.milliseconds
        << "}";
    separator = ",\n    ";
  }
  out << "\n  ]\n}\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace

int measure_list(const Flags& flags) {
  std::vector<headway_test::Case> cases = headway_test::all_cases();
  if (flags.choose(cases, [](const headway_test::Case& c) { return headway_test::describe(c); })) return 0;
  const std::vector<int> thread_counts = flags.thread_counts(headway::num_threads());
  std::vector<ListRow> rows;
  std::printf("%3s %18s %18s\n", "thr", "forward ms", "backward ms");
  for (const headway_test::Case& c : cases) {
    for (const int threads : thread_counts) {
      const ListRow& row = rows.emplace_back(measure_case(c, threads, flags));
      std::printf("%3d %11.4f +-%3.0f%% %11.4f +-%3.0f%%  %s\n", threads, row.forward.milliseconds,
                  100 * row.forward.spread, row.backward.milliseconds, 100 * row.backward.spread, row.name.c_str());
      std::fflush(stdout);
    }
  }
  if (!flags.json.empty()) write_list(flags.json, rows);
  return 0;
}

}  // namespace bench
