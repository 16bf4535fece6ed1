// headway recommend
#include <unistd.h>

#include <charconv>
#include <iostream>
#include <memory>

#include "headway/attention_view.h"
#include "headway/error.h"
#include "headway/sequence_recommender.h"
#include "options.h"
#include "task_options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kRecommendExamples =
    R"(  headway recommend --history 17,4,902                  (number, item, probability, where it came from)
  headway recommend --count 3 < histories.txt           (a history a line)
  headway recommend --history 17,4,902 --html page.html (a page with every head)
Items are the numbers that the model was trained on, in the order of time, the newest last. Without --model the one
that comes with Headway is taken: games that people rated at Amazon, from 1 to 23715.)";

constexpr std::size_t kHistoriesAtOnce = 1024;
constexpr std::size_t kSourcesShown = 3;

using History = std::vector<std::int64_t>;

struct Recommend {
  std::string model = {};
  int threads = 0;
  std::string device = "cpu";
  std::string dtype = "float32";
  std::string history = {};
  bool has_history = false;
  std::int64_t count = 10;
  bool with_seen = false;
  bool json = false;
  std::string html = {};
  std::string svg = {};

  int run();
  void recommend(const headway::SequenceRecommender& recommender, const std::vector<History>& histories);
  void print(const headway::Recommendations& found);
  void draw(const headway::SequenceRecommender& recommender, const History& given) const;
  headway::RecommendOptions options() const;

  Table table = {};
  std::int64_t number = 0;  // of the last history
};

// Numbers with commas or spaces between them.
History history_of(const std::string& text, const std::string& where) {
  constexpr std::string_view kBetween = ", \t";
  History items;
  for (std::size_t begin = text.find_first_not_of(kBetween); begin != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    std::int64_t item = 0;
    const auto [rest, problem] = std::from_chars(text.data() + begin, text.data() + end, item);
    if (problem != std::errc() || rest != text.data() + end || item < 1) {
      throw headway::Error(where + " has \"" +
                           visible_text(text.substr(begin, std::min<std::size_t>(end - begin, 40))) +
                           "\", expected items: numbers from 1, as 17,4,902");
    }
    items.push_back(item);
    begin = text.find_first_not_of(kBetween, end);
  }
  return items;
}

std::string list_json(const std::vector<std::int64_t>& items) {
  std::vector<std::string> words;
  words.reserve(items.size());
  for (const std::int64_t item : items) words.push_back(std::to_string(item));
  return "[" + joined(words, ", ") + "]";
}

std::string recommendations_json(const History& history, const headway::Recommendations& found) {
  std::vector<std::string> items;
  for (const headway::RecommendedItem& item : found.items) {
    std::vector<std::string> shares;
    for (const double share : item.shares) shares.push_back(json_number(share));
    items.push_back("{\"item\": " + std::to_string(item.item) + ", \"probability\": " + json_number(item.probability) +
                    ", \"score\": " + json_number(item.score) + ", \"shares\": [" + joined(shares, ", ") + "]}");
  }
  std::vector<std::string> layers;
  for (const headway::Tensor& layer : found.attention) {
    std::vector<std::string> heads;
    for (std::int64_t head = 0; head < layer.size(0); ++head) {
      std::vector<std::string> weights;
      for (const double weight : layer[head].to_vector()) weights.push_back(json_number(weight));
      heads.push_back("[" + joined(weights, ", ") + "]");
    }
    layers.push_back("[" + joined(heads, ", ") + "]");
  }
  return "{\"history\": " + list_json(history) + ", \"items\": [" + joined(items, ", ") +
         "], \"read\": " + list_json(found.read) + ", \"attention\": [" + joined(layers, ", ") +
         "], \"note\": " + json_string(found.notes.describe()) + "}";
}

// "62% 902, 30% 17": what a recommendation mostly came from.
std::string sources_text(const headway::RecommendedItem& item, const History& read) {
  std::vector<std::size_t> order(item.shares.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return item.shares[a] > item.shares[b]; });
  std::vector<std::string> sources;
  for (std::size_t i = 0; i < std::min(order.size(), kSourcesShown); ++i) {
    const double share = item.shares[order[i]];
    if (share < 0.005) break;
    sources.push_back(fixed(100.0 * share, 0) + "% " + std::to_string(read[order[i]]));
  }
  return sources.empty() ? "" : "from " + joined(sources, ", ");
}

headway::RecommendOptions Recommend::options() const {
  headway::RecommendOptions chosen;
  chosen.count = count;
  chosen.exclude_seen = !with_seen;
  return chosen;
}

void Recommend::print(const headway::Recommendations& found) {
  std::int64_t place = 0;
  for (const headway::RecommendedItem& item : found.items) {
    std::vector<std::string> row = {std::to_string(++place), std::to_string(item.item), score_text(item.probability),
                                    sources_text(item, found.read)};
    if (!has_history) row.insert(row.begin(), std::to_string(number));
    table.add(row);
  }
}

void Recommend::recommend(const headway::SequenceRecommender& recommender, const std::vector<History>& histories) {
  const std::vector<headway::Recommendations> found = recommender.recommend_all(histories, options());
  const std::int64_t first = number;
  for (std::size_t i = 0; i < histories.size(); ++i) {
    ++number;
    if (json) {
      std::cout << recommendations_json(histories[i], found[i]) << '\n';
    } else {
      print(found[i]);
    }
  }
  table.print();
  std::cout.flush();
  for (std::size_t i = 0; i < histories.size(); ++i) {
    if (found[i].notes.none()) continue;
    std::cerr << "headway recommend: history " << first + static_cast<std::int64_t>(i) + 1 << ": "
              << found[i].notes.describe() << std::endl;
  }
}

void Recommend::draw(const headway::SequenceRecommender& recommender, const History& given) const {
  const headway::AttentionRecord record = headway::attend(recommender, given, options());
  const auto write = [](const std::string& file, const std::string& content) {
    write_file(file, content);
    if (file != "-") std::cerr << file << " written" << std::endl;
  };
  if (!html.empty()) write(html, headway::attention_html(record));
  if (!svg.empty()) write(svg, headway::attention_svg(record));
}

int Recommend::run() {
  const bool draws = !html.empty() || !svg.empty();
  if (draws && !has_history) throw UsageError("--html and --svg draw one history, expected --history");
  use_threads(threads);
  const headway::TaskOptions place = {.device = headway::Device::parse(device),
                                      .dtype = dtype == "float32"    ? headway::DType::float32
                                               : dtype == "bfloat16" ? headway::DType::bfloat16
                                                                     : headway::DType::float16};
  const headway::SequenceRecommender recommender(
      model.empty() ? shipped_model("video-games") : std::filesystem::path(model), place);
  if (has_history) {
    const History given = history_of(history, "--history");
    if (draws) draw(recommender, given);
    if (html != "-" && svg != "-") recommend(recommender, {given});
    return kDone;
  }
  if (is_terminal(STDIN_FILENO)) std::cerr << "headway recommend: a history a line, Ctrl-D ends" << std::endl;
  InputTexts input({.command = "headway recommend"});
  for (auto lines = input.next(kHistoriesAtOnce); !lines.empty(); lines = input.next(kHistoriesAtOnce)) {
    std::vector<History> histories;
    histories.reserve(lines.size());
    for (const std::string& line : lines) {
      histories.push_back(history_of(line, "history " + std::to_string(number + std::ssize(histories) + 1)));
    }
    recommend(recommender, histories);
  }
  return kDone;
}

}  // namespace

void add_recommend(Program& program) {
  CLI::App& command = program.add_command(
      {"recommend", "The next items of a history, and which past ones they came from", kRecommendExamples});
  const auto options = std::make_shared<Recommend>();
  const CLI::Option* const history =
      command
          .add_option("--history", options->history,
                      "Items with commas between them, the newest last; without it, a history a line of standard input")
          ->type_name("ITEMS");
  command
      .add_option("--model", options->model,
                  "Directory of a decoder whose tokens are items; default: video-games, which comes with Headway")
      ->type_name("DIR");
  command.add_option("--count", options->count, "Items to recommend")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24).description(""));
  command.add_flag("--with-seen", options->with_seen, "Also recommend items of the history");
  command.add_flag("--json", options->json, "Write one JSON object for each history, with the attention");
  command.add_option("--html", options->html, "Write one page with every head of every layer; - is standard output")
      ->type_name("FILE");
  command.add_option("--svg", options->svg, "Write a picture: what each recommendation came from")->type_name("FILE");
  add_threads_option(command, options->threads);
  command.add_option("--device", options->device, "Where to compute: cpu, or a GPU as cuda or cuda:N")
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--dtype", options->dtype, "Numbers to compute with")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  program.on_run(command, [options, history] {
    options->has_history = history->count() > 0;
    return options->run();
  });
}

}  // namespace cli
