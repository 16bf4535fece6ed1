// example_recommend train DATA --output DIR: SASRec on lists of items.
// example_recommend evaluate DATA MODEL: how often the item that came next is among the first ten.
#include <headway/sequence_recommender.h>

#include <cmath>
#include <cstdio>

#include "recommend/ranking.h"
#include "recommend/training.h"

namespace example {
namespace {

using headway::SequenceRecommender;
using headway::Tensor;

constexpr const char* kUsage = R"(expected a command:
  example_recommend train DATA --output DIR [--steps N] [--seed N] [--resume]
  example_recommend evaluate DATA MODEL [--part validation] [--draws N]
  example_recommend popular DATA [--part validation] [--draws N])";

Split read_split(const Arguments& arguments, std::size_t files, const char* expected) {
  if (arguments.files().size() != files) throw headway::Error(arguments.command() + ": expected " + expected);
  return split_actions(read_actions(arguments.files()[0]));
}

int train_command(Arguments& arguments) {
  RecommenderShape shape;
  RecommenderTraining training;
  training.run = {.output = "video-games", .steps = 9600, .learning_rate = 3e-3, .weight_decay = 0.5};
  training.run.read(arguments);
  shape.width = arguments.integer("width", shape.width);
  shape.layers = arguments.integer("layers", shape.layers);
  shape.heads = arguments.integer("heads", shape.heads);
  shape.hidden = arguments.integer("hidden", shape.hidden);
  shape.positions = arguments.integer("positions", shape.positions);
  shape.dropout = arguments.real("dropout", shape.dropout);
  training.users = arguments.integer("users", training.users);
  training.negatives = arguments.integer("negatives", training.negatives);
  arguments.check_all_used();
  const Split split = read_split(arguments, 1, "DATA");
  const SequenceRecommender recommender(train_recommender(split, shape, training), split.counts);
  recommender.save(training.run.output, headway::DType::float16);
  std::cerr << training.run.output.string() << " written\n";
  return 0;
}

void print_row(const char* name, const Ranking& ranking) {
  std::printf("%-46s %.4f  %.4f\n", name, ranking.hit_rate, ranking.ndcg);
}

// Mean and standard deviation of a number of all draws.
std::pair<double, double> spread(const std::vector<Ranking>& draws, double Ranking::*number) {
  double mean = 0.0, square = 0.0;
  for (const Ranking& draw : draws) mean += draw.*number / static_cast<double>(draws.size());
  for (const Ranking& draw : draws) square += (draw.*number - mean) * (draw.*number - mean);
  return {mean, std::sqrt(square / static_cast<double>(std::max<std::size_t>(draws.size(), 2) - 1))};
}

int rank_and_print(Arguments& arguments, const Split& split, const Scores& scores) {
  const std::string part = arguments.text("part", "test");
  const std::int64_t draws = arguments.integer("draws", 5);
  arguments.check_all_used();
  if (part != "test" && part != "validation") {
    throw headway::Error("--part is \"" + part + "\", expected test or validation");
  }
  if (draws < 1) throw headway::Error("--draws is " + std::to_string(draws) + ", expected at least 1");
  const auto& questions = part == "test" ? split.test : split.validation;
  if (questions.empty()) throw headway::Error("no user has 3 items, so there is nothing to rank");
  const Evaluation evaluation = evaluate(questions, split.items, draws, scores);
  std::printf("%s: %zu users, %lld items\n%-46s %-7s %s\n", part.c_str(), questions.size(),
              static_cast<long long>(split.items), "", "HR@10", "NDCG@10");
  const auto [hit_rate, hit_deviation] = spread(evaluation.sampled, &Ranking::hit_rate);
  const auto [ndcg, ndcg_deviation] = spread(evaluation.sampled, &Ranking::ndcg);
  print_row(("among 100 sampled others, mean of " + std::to_string(draws) + " draws").c_str(), {hit_rate, ndcg});
  print_row("  standard deviation of a draw", {hit_deviation, ndcg_deviation});
  print_row("among all items", evaluation.all);
  print_row("among all items that are not in the history", evaluation.without_seen);
  return 0;
}

int evaluate_command(Arguments& arguments) {
  const Split split = read_split(arguments, 2, "DATA MODEL");
  const SequenceRecommender recommender(arguments.files()[1]);
  if (recommender.items() < split.items) {
    throw headway::Error("the model knows " + std::to_string(recommender.items()) + " items, and the data has " +
                         std::to_string(split.items));
  }
  return rank_and_print(arguments, split, [&](const auto& histories) {
    return recommender.scores(histories).slice(1, 0, split.items + 1).contiguous();
  });
}

// The baseline: everybody is recommended what most took.
int popular_command(Arguments& arguments) {
  const Split split = read_split(arguments, 1, "DATA");
  const Tensor counts = Tensor::from(split.counts, {1, split.items + 1}).to(headway::DType::float32);
  return rank_and_print(arguments, split, [&](const auto& histories) {
    return counts.expand({std::ssize(histories), split.items + 1}).contiguous();
  });
}

}  // namespace
}  // namespace example

int main(int count, char** words) {
  return example::run([&] {
    example::Arguments arguments(count, words);
    if (arguments.command() == "train") return example::train_command(arguments);
    if (arguments.command() == "evaluate") return example::evaluate_command(arguments);
    if (arguments.command() == "popular") return example::popular_command(arguments);
    throw headway::Error(example::kUsage);
  });
}
