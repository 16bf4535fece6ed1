// The log's lines and how it is cut back; the progress line on terminals and elsewhere.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <sstream>

#include "base/terminal.h"
#include "support/files.h"
#include "support/message_of.h"
#include "train/progress.h"
#include "train/training_log.h"

namespace {

using headway::StepReport;
using headway::internal::Progress;
using headway::internal::TrainingLog;
using namespace headway_test;

StepReport make_report(std::int64_t step) {
  StepReport report;
  report.step = step;
  report.loss = 0.1 + 0.2;
  report.learning_rate = 1e-4;
  report.gradient_norm = 2.5;
  report.layers = {{"layers.0", 1.5}, {"layers.1", 2.0}};
  report.tokens_per_second = 1e6;
  report.seconds = 10;
  report.seconds_left = 100;
  return report;
}

const std::vector<std::string> kLayers = {"layers.0", "layers.1"};

TEST(TrainLog, JsonLines) {
  EXPECT_EQ(headway::internal::json_line(make_report(12)),
            "{\"step\": 12, \"loss\": 0.30000000000000004, \"learning_rate\": 1e-04, \"gradient_norm\": 2.5, "
            "\"tokens_per_second\": 1e+06, \"seconds\": 10, \"seconds_left\": 100, \"skipped\": false, "
            "\"bad_gradient\": \"\", \"layers\": {\"layers.0\": 1.5, \"layers.1\": 2}}");
  StepReport bad = make_report(1);
  bad.loss = std::nan("");
  bad.gradient_norm = std::numeric_limits<double>::infinity();
  bad.skipped = true;
  bad.bad_gradient = "a\"b\\c\n";
  bad.layers = {};
  EXPECT_EQ(headway::internal::json_line(bad),
            "{\"step\": 1, \"loss\": null, \"learning_rate\": 1e-04, \"gradient_norm\": null, "
            "\"tokens_per_second\": 1e+06, \"seconds\": 10, \"seconds_left\": 100, \"skipped\": true, "
            "\"bad_gradient\": \"a\\\"b\\\\c\\u000a\", \"layers\": {}}");
}

TEST(TrainLog, CommaSeparatedValues) {
  EXPECT_EQ(headway::internal::csv_header({"layers.0", "a,b"}),
            "step,loss,learning_rate,gradient_norm,tokens_per_second,seconds,seconds_left,skipped,bad_gradient,"
            "norm:layers.0,\"norm:a,b\"");
  EXPECT_EQ(headway::internal::csv_line(make_report(12), kLayers),
            "12,0.30000000000000004,1e-04,2.5,1e+06,10,100,0,,1.5,2");
  StepReport bad = make_report(3);
  bad.loss = std::nan("");
  bad.skipped = true;
  bad.bad_gradient = "a,\"b\"\nc";
  bad.layers = {{"layers.1", 2.0}};
  EXPECT_EQ(headway::internal::csv_line(bad, kLayers), "3,nan,1e-04,2.5,1e+06,10,100,1,\"a,\"\"b\"\" c\",,2");
}

TEST(TrainLog, TheEndingIsTheFormat) {
  EXPECT_EQ(message_of([] { headway::internal::log_format("run/log.txt"); }),
            "training log: run/log.txt: the ending is \".txt\", expected .jsonl or .csv");
  EXPECT_EQ(message_of([] { headway::internal::log_format("log"); }),
            "training log: log: the ending is \"\", expected .jsonl or .csv");
}

TEST(TrainLog, IsCutBackToTheCheckpoint) {
  const TemporaryDirectory directory;
  for (const char* name : {"log.jsonl", "log.csv"}) {
    const std::filesystem::path path = directory / name;
    {
      TrainingLog log(path, kLayers, 0);
      for (std::int64_t step = 1; step <= 3; ++step) log.append(make_report(step));
      log.flush_to_disk();
    }
    const std::string three = read_bytes(path);
    {
      TrainingLog log(path, kLayers, 3);
      for (std::int64_t step = 4; step <= 9; ++step) log.append(make_report(step));
    }
    const std::string nine = read_bytes(path);
    EXPECT_EQ(nine.substr(0, three.size()), three);
    write_bytes(path, nine.substr(0, nine.size() - 5));  // killed within a line
    {
      TrainingLog log(path, kLayers, 8);
      log.append(make_report(9));
    }
    EXPECT_EQ(read_bytes(path), nine);
    { const TrainingLog log(path, kLayers, 3); }
    EXPECT_EQ(read_bytes(path), three);
    { const TrainingLog log(path, kLayers, 0); }
    EXPECT_EQ(read_bytes(path), name == std::string("log.csv") ? headway::internal::csv_header(kLayers) + "\n" : "");
  }
  EXPECT_EQ(directory.listing().size(), 2u);
}

TEST(TrainLog, OtherFilesAreRefusedAndLeftAlone) {
  const TemporaryDirectory directory;
  const auto refused = [&](const std::string& name, const std::string& text, std::int64_t last_step) {
    write_bytes(directory / name, text);
    const std::string message = message_of([&] { TrainingLog(directory / name, kLayers, last_step); });
    EXPECT_EQ(read_bytes(directory / name), text);
    return message;
  };
  EXPECT_NE(refused("a.jsonl", "{\"text\": 1}\n", 0).find("line 1 is not a line of a training log"), std::string::npos);
  EXPECT_NE(refused("a.jsonl", "important", 0).find("is not a training log"), std::string::npos);
  EXPECT_NE(refused("a.csv", "name,age\nx,1\n", 0).find("its columns are name,age"), std::string::npos);
  EXPECT_NE(refused("a.csv", "name", 0).find("is not a training log"), std::string::npos);
  const std::string fewer = headway::internal::csv_header({"layers.0"}) + "\n";
  EXPECT_NE(refused("b.csv", fewer, 3).find("its columns are"), std::string::npos);
  EXPECT_NE(message_of([&] { TrainingLog(directory / "none" / "log.csv", kLayers, 0); }).find("no file can be made"),
            std::string::npos);
  std::filesystem::create_directory(directory / "c.csv");
  EXPECT_NE(message_of([&] { TrainingLog(directory / "c.csv", kLayers, 0); }).find("is not a file"), std::string::npos);
}

TEST(TrainProgress, ShortForms) {
  using headway::internal::short_count;
  using headway::internal::short_time;
  EXPECT_EQ(short_count(0), "0");
  EXPECT_EQ(short_count(999), "999");
  EXPECT_EQ(short_count(1234), "1.23k");
  EXPECT_EQ(short_count(99960), "100k");
  EXPECT_EQ(short_count(12.34e6), "12.3M");
  EXPECT_EQ(short_count(NAN), "?");
  EXPECT_EQ(short_time(0), "0:00");
  EXPECT_EQ(short_time(59.6), "1:00");
  EXPECT_EQ(short_time(185), "3:05");
  EXPECT_EQ(short_time(7385), "2:03:05");
  EXPECT_EQ(short_time(3 * 86400 + 7385), "3d 02:03");
  EXPECT_EQ(short_time(INFINITY), "?");
  EXPECT_EQ(short_time(-1), "?");
}

TEST(TrainProgress, PlainLinesAtIntervalsElsewhere) {
  std::ostringstream out;
  EXPECT_FALSE(headway::internal::is_terminal(out));
  {
    Progress progress({.stream = &out, .seconds = 1000, .steps = 5});
    for (std::int64_t step = 1; step <= 5; ++step) progress.show(make_report(step), 0);
  }
  EXPECT_EQ(out.str(),
            "step 1/5  loss 0.3000  learning rate 0.0001  gradient norm 2.5  1:40 left\n"
            "step 5/5  loss 0.3000  learning rate 0.0001  gradient norm 2.5  1:40 left\n");
}

TEST(TrainProgress, OneLineIsRewrittenOnATerminal) {
  std::ostringstream out;
  StepReport longer = make_report(1);
  longer.skipped = true;
  longer.learning_rate = 0.000123;
  {
    Progress progress({.stream = &out, .terminal = true, .seconds = 0, .steps = 9});
    progress.note("resumed");
    progress.show(longer, 0);
    StepReport shorter = make_report(2);
    shorter.learning_rate = 1;
    progress.show(shorter, 0);
    EXPECT_EQ(out.str().find('\n'), out.str().rfind('\n'));  // that of the note
  }
  const std::string text = out.str();
  EXPECT_EQ(text.substr(0, 9), "resumed\n\r");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 2);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.back(), '\n');
  const std::size_t second = text.rfind('\r');
  EXPECT_EQ(text.size() - 1 - second, second - 8);  // spaces cover the longer line
  EXPECT_LE(second - 8, 80u);
}

TEST(TrainProgress, TokensAndSkippedStepsAreTold) {
  std::ostringstream out;
  StepReport report = make_report(1);
  report.skipped = true;
  report.bad_gradient = "layers.1.weight";
  {
    Progress progress({.stream = &out, .steps = 9});
    progress.show(report, 1000);
  }
  EXPECT_NE(out.str().find(" tokens/s  1:40 left  skipped 1 (layers.1.weight)\n"), std::string::npos) << out.str();
}

}  // namespace
