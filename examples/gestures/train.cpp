// Which gesture a finger made: a small Transformer over 16 points.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <numbers>
#include <random>

#include "gestures/model.h"
#include "gestures/record.h"
#include "gestures/rows.h"
#include "support/files.h"
#include "support/program.h"

namespace {

using gestures::Row;
using headway::Tensor;

constexpr const char* kUsage =
    "example_gestures train DATA --output DIR [--blocks --steps N --learning-rate R --seed N --resume]\n"
    "example_gestures evaluate DATA MODEL [--rows N]\n"
    "example_gestures classify ROWS.csv [--model DIR] [--html PAGE --svg PICTURE]   the picture is of the first row\n"
    "example_gestures split DATA [--blocks]   the numbers of the test rows, from 0\n"
    "DATA is the folder with point_history.csv.\n";

void check_files(const example::Arguments& arguments, std::size_t count, const std::string& expected) {
  if (arguments.files().size() != count) {
    throw headway::Error(arguments.command() + ": " + std::to_string(arguments.files().size()) +
                         " files given, expected " + expected);
  }
}

gestures::Split split_of(const std::vector<Row>& rows, bool blocks) {
  return blocks ? gestures::block_split(rows) : gestures::random_split(static_cast<std::int64_t>(rows.size()));
}

std::vector<Row> chosen(const std::vector<Row>& rows, const std::vector<std::int64_t>& numbers) {
  std::vector<Row> result;
  for (const std::int64_t number : numbers) result.push_back(rows[static_cast<std::size_t>(number)]);
  return result;
}

Tensor labels_of(const std::vector<Row>& rows) {
  std::vector<std::int64_t> labels;
  for (const Row& row : rows) labels.push_back(row.label);
  return Tensor::from(labels, {static_cast<std::int64_t>(labels.size())});
}

// Turns a track by up to 20 degrees and makes it up to a third smaller or larger.
void vary(Row* row, std::mt19937_64& random) {
  const auto between = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random() >> 11U) * 0x1.0p-53;
  };
  const double angle = between(-20, 20) * std::numbers::pi / 180, size = between(0.75, 1.35);
  const auto cosine = static_cast<float>(size * std::cos(angle)), sine = static_cast<float>(size * std::sin(angle));
  for (std::size_t i = 0; i < row->points.size(); i += 2) {
    const float x = row->points[i], y = row->points[i + 1];
    row->points[i] = cosine * x - sine * y;
    row->points[i + 1] = sine * x + cosine * y;
  }
}

int train(example::Arguments& arguments) {
  constexpr std::int64_t kBatch = 64;
  example::TrainingRun run = {.output = "gestures", .steps = 2000, .learning_rate = 2e-3};
  run.read(arguments);
  const gestures::GestureOptions options = {.blocks = arguments.flag("blocks")};
  arguments.check_all_used();
  check_files(arguments, 1, "a folder of data");
  const std::vector<Row> all = gestures::read_rows(arguments.files()[0], true);
  const std::vector<Row> training = chosen(all, split_of(all, options.blocks).training);
  if (training.empty()) throw headway::Error(arguments.files()[0] + ": too few rows to train on");

  headway::set_random_seed(run.seed);
  const gestures::GestureModel model(options);
  std::cerr << model.parameter_count() << " parameters, " << training.size() << " rows\n";
  example::train(model, run, [&](const headway::BatchPosition& position) -> headway::BatchLoss {
    std::mt19937_64 random(run.seed * 1000003 + static_cast<std::uint64_t>(position.index));
    std::vector<Row> batch;
    for (std::int64_t i = 0; i < kBatch; ++i) {
      vary(&batch.emplace_back(training[static_cast<std::size_t>(random() % training.size())]), random);
    }
    return {.loss = cross_entropy(model.forward(gestures::point_tensor(batch)).logits, labels_of(batch)),
            .tokens = kBatch * (gestures::kPoints + 1)};
  });
  model.save(run.output);
  return 0;
}

int evaluate(example::Arguments& arguments) {
  const std::int64_t limit = arguments.integer("rows", 0);
  arguments.check_all_used();
  check_files(arguments, 2, "a folder of data and a model");
  const gestures::GestureModel model = gestures::GestureModel::load(arguments.files()[1]);
  const std::vector<Row> all = gestures::read_rows(arguments.files()[0], true);
  const gestures::Split split = split_of(all, model.options().blocks);
  std::vector<Row> rows = chosen(all, split.test);
  if (limit > 0 && limit < static_cast<std::int64_t>(rows.size())) rows.resize(static_cast<std::size_t>(limit));
  if (rows.empty()) throw headway::Error(arguments.files()[0] + ": too few rows to evaluate on");

  const headway::NoGradGuard guard;
  const std::vector<double> answers = argmax(model.forward(gestures::point_tensor(rows)).logits, 1).to_vector();
  std::array<std::int64_t, gestures::kClasses> count = {}, right = {};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto label = static_cast<std::size_t>(rows[i].label);
    ++count[label];
    right[label] += static_cast<std::size_t>(answers[i]) == label ? 1 : 0;
  }
  std::int64_t all_right = 0;
  for (const std::int64_t some : right) all_right += some;
  std::printf("%zu rows of the split %s, which training has not seen\n", rows.size(),
              model.options().blocks ? "by blocks" : "at random");
  std::printf("%-18s %.2f %%\n", "right", 100 * static_cast<double>(all_right) / static_cast<double>(rows.size()));
  for (std::size_t i = 0; i < right.size(); ++i) {
    std::printf("%-18s %lld of %lld\n", gestures::kNames[i].c_str(), static_cast<long long>(right[i]),
                static_cast<long long>(count[i]));
  }
  return 0;
}

int classify(example::Arguments& arguments) {
  const std::string directory = arguments.text("model", "models/gestures");
  const std::string page = arguments.text("html", ""), picture = arguments.text("svg", "");
  arguments.check_all_used();
  check_files(arguments, 1, "a file of rows");
  const gestures::GestureModel model = gestures::GestureModel::load(directory);
  const std::vector<Row> rows = gestures::read_rows(arguments.files()[0], false);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const gestures::Answer answer = gestures::answer(model, rows[i]);
    std::printf("row %zu: %s (%.2f)", i + 1, gestures::kNames[static_cast<std::size_t>(answer.label)].c_str(),
                answer.probability);
    if (rows[i].label >= 0 && rows[i].label != answer.label) {
      std::printf(", the file says %s", gestures::kNames[static_cast<std::size_t>(rows[i].label)].c_str());
    }
    std::printf("\n");
    if (i > 0 || (page.empty() && picture.empty())) continue;
    const std::string name = std::filesystem::path(arguments.files()[0]).filename().string() + ", row 1";
    const headway::AttentionRecord record = gestures::record(rows[i], answer, name);
    if (!page.empty()) example::write_text(page, headway::attention_html(record));
    if (!picture.empty()) example::write_text(picture, headway::attention_svg(record, {.part = "answer"}));
  }
  return 0;
}

int print_split(example::Arguments& arguments) {
  const bool blocks = arguments.flag("blocks");
  arguments.check_all_used();
  check_files(arguments, 1, "a folder of data");
  for (const std::int64_t row : split_of(gestures::read_rows(arguments.files()[0], true), blocks).test) {
    std::printf("%lld\n", static_cast<long long>(row));
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  return example::run([&] {
    example::Arguments arguments(count, words);
    if (arguments.command() == "train") return train(arguments);
    if (arguments.command() == "evaluate") return evaluate(arguments);
    if (arguments.command() == "classify") return classify(arguments);
    if (arguments.command() == "split") return print_split(arguments);
    std::cerr << kUsage;
    return arguments.command() == "--help" ? 0 : 2;
  });
}
