// The shapes of cross-attention, a sentence as a heat map, and how fast one call is.
#include <headway/headway.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using headway::Tensor;

// ---- 1. the shapes of cross-attention ----

// [batch, length, heads * head_dim] -> [batch, heads, length, head_dim]: a view, nothing is copied.
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

// [batch, heads, length, head_dim] -> [batch, length, heads * head_dim]
Tensor merge_heads(const Tensor& x) { return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)}); }

// The largest distance of a row's sum from 1.
double worst_row_sum(const Tensor& weights) {
  const std::vector<double> values = weights.to_vector();
  const std::size_t row_length = static_cast<std::size_t>(weights.size(-1));
  double worst = 0.0;
  for (std::size_t row = 0; row < values.size(); row += row_length) {
    double sum = 0.0;
    for (std::size_t i = 0; i < row_length; ++i) sum += values[row + i];
    worst = std::max(worst, std::abs(sum - 1.0));
  }
  return worst;
}

void show_shapes() {
  const Tensor sentence = Tensor::randn({2, 4, 512}, /*seed=*/1);  // [batch, query_length, embed_dim]
  const Tensor memory = Tensor::randn({2, 6, 512}, /*seed=*/2);    // [batch, key_length, embed_dim]
  const Tensor query = split_heads(sentence, 8);
  const Tensor key = split_heads(memory, 8);
  const auto result = headway::attention(query, key, key, {.weights = headway::Weights::per_head});
  const Tensor output = merge_heads(result.output);

  const auto text = [](const Tensor& x) { return x.shape().to_string(); };
  std::printf("1. Cross-attention: 4 words look at 6 others, with 8 heads\n\n");
  std::printf("   queries %-16s             keys and values %s\n", text(sentence).c_str(), text(memory).c_str());
  std::printf("      | split into heads                     | split into heads\n");
  std::printf("   %-16s                       %s\n", text(query).c_str(), text(key).c_str());
  std::printf("      |                                      |\n");
  std::printf("      +------------------+-------------------+\n");
  std::printf("                         | softmax(Q K^T / 8)\n");
  std::printf("              weights %s     each head: 4 words x 6 words\n", text(result.weights).c_str());
  std::printf("                         | weights V\n");
  std::printf("              heads   %s\n", text(result.output).c_str());
  std::printf("                         | merge heads\n");
  std::printf("              output  %s\n\n", text(output).c_str());
  std::printf("   Every row of weights shares out one look: its sum is 1, within %.0e here.\n\n",
              worst_row_sum(result.weights));
}

// ---- 2. a sentence ----

// Hand-made meanings: noun, living, place, action, description.
using Features = std::array<float, 5>;
constexpr Features kNothing = {0, 0, 0, 0, 0};
constexpr Features kNoun = {1, 0, 0, 0, 0};
constexpr Features kLiving = {0, 1, 0, 0, 0};
constexpr Features kPlace = {0, 0, 1, 0, 0};
constexpr Features kAction = {0, 0, 0, 1, 0};
constexpr Features kDescription = {0, 0, 0, 0, 1};
constexpr Features kLivingNoun = {1, 1, 0, 0, 0};
constexpr Features kPlaceNoun = {1, 0, 1, 0, 0};
constexpr Features kLivingOrPlace = {0, 1, 1, 0, 0};

struct Word {
  const char* text;
  Features looks_for;  // becomes its query
  Features offers;     // becomes its key
  Features carries;    // becomes its value
};

// An 11-word sentence whose last word decides what "it" is.
std::vector<Word> sentence(const Word& last) {
  return {{"The", kNoun, kNothing, kNothing},
          {"animal", kAction, kLivingNoun, kNothing},
          {"didn't", kAction, kNothing, kNothing},
          {"cross", kLivingOrPlace, kAction, kNothing},
          {"the", kNoun, kNothing, kNothing},
          {"street", kAction, kPlaceNoun, kNothing},
          {"because", kDescription, kNothing, kNothing},
          {"it", kDescription, kNothing, kNothing},
          {"was", kDescription, kNothing, kNothing},
          {"too", kDescription, kNothing, kNothing},
          last};
}

constexpr Word kTired = {"tired", kLiving, kDescription, kLiving};  // only the living tire
constexpr Word kWide = {"wide", kPlace, kDescription, kPlace};      // only places are wide
constexpr int kWordCount = 11;
constexpr int kIt = 7;
constexpr int kHeadDim = 16;
constexpr double kPi = 3.14159265358979323846;

// Sines and cosines of a position: two of these are alike only where their positions are equal.
void write_position(int position, float strength, float* row) {
  for (int k = 0; k < kHeadDim / 2; ++k) {
    const double angle = position * (k + 1) * kPi / (kHeadDim / 2 + 1);
    row[2 * k] = strength * static_cast<float>(std::cos(angle));
    row[2 * k + 1] = strength * static_cast<float>(std::sin(angle));
  }
}

void write_features(const Features& features, float strength, float* row) {
  for (std::size_t k = 0; k < features.size(); ++k) row[k] = strength * features[k];
}

// Head 0 knows positions alone, head 1 meanings alone; the weights are the real thing, computed by the library.
headway::AttentionResult look_around(const std::vector<Word>& words) {
  Tensor query = Tensor::zeros({1, 2, kWordCount, kHeadDim});  // [batch, heads, query_length, head_dim]
  Tensor key = Tensor::zeros({1, 2, kWordCount, kHeadDim});    // [batch, heads, key_length, head_dim]
  Tensor value = Tensor::zeros({1, 2, kWordCount, kHeadDim});  // [batch, heads, key_length, value_dim]
  for (int i = 0; i < kWordCount; ++i) {
    const Word& word = words[static_cast<std::size_t>(i)];
    write_position(i - 1, 0.55f, query.data<float>() + i * kHeadDim);
    write_position(i, 1.0f, key.data<float>() + i * kHeadDim);
    write_features(word.looks_for, 4.5f, query.data<float>() + (kWordCount + i) * kHeadDim);
    write_features(word.offers, 1.0f, key.data<float>() + (kWordCount + i) * kHeadDim);
    write_features(word.carries, 1.0f, value.data<float>() + (kWordCount + i) * kHeadDim);
  }
  return headway::attention(query, key, value,
                            {.scale = 1.0,
                             .alibi_slopes = Tensor::from({0.0f, 0.25f}, {2}),  // nearer words count more in head 1
                             .weights = headway::Weights::per_head});
}

bool colours_wanted() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

// Three columns whose shade is a weight between 0 and 1.
std::string cell(double weight, bool colour) {
  const double shade = std::sqrt(std::clamp(weight, 0.0, 1.0));  // lifts small weights into sight
  if (!colour) {
    static constexpr std::array<const char*, 5> kShades = {" · ", "░░░", "▒▒▒", "▓▓▓", "███"};
    return kShades[static_cast<std::size_t>(std::min(4.0, shade * 5.0))];
  }
  const auto mix = [shade](double from, double to) { return static_cast<int>(from + shade * (to - from)); };
  char text[64];
  std::snprintf(text, sizeof text, "\x1b[48;2;%d;%d;%dm   \x1b[0m", mix(24, 255), mix(28, 190), mix(52, 60));
  return text;
}

void draw_heat_maps(const std::vector<Word>& words, const Tensor& weights) {
  const bool colour = colours_wanted();
  const auto column_numbers = [] {
    for (int j = 1; j <= kWordCount; ++j) std::printf("%2d ", j);
  };
  std::printf("               %-36s%s\n", "the word before (position)", "what belongs to me (meaning)");
  std::printf("              ");
  column_numbers();
  std::printf("   ");
  column_numbers();
  std::printf("\n");
  for (int i = 0; i < kWordCount; ++i) {
    std::printf("   %2d %-8s", i + 1, words[static_cast<std::size_t>(i)].text);
    for (int head = 0; head < 2; ++head) {
      for (int j = 0; j < kWordCount; ++j) std::printf("%s", cell(weights.at({0, head, i, j}), colour).c_str());
      std::printf("%s", head == 0 ? "   " : "\n");
    }
  }
  std::printf("\n");
}

// The second layer: "it" now asks for the value that the first one returned, and finds the noun that it refers to.
void show_second_look(const std::vector<Word>& words, const headway::AttentionResult& first) {
  const Tensor heard = first.output.select(1, 1).slice(1, kIt, kIt + 1).unsqueeze(1);  // [1, 1, 1, head_dim]
  Tensor key = Tensor::zeros({1, 1, kWordCount, kHeadDim});  // [batch, heads, key_length, head_dim]
  for (int j = 0; j < kWordCount; ++j) {
    write_features(words[static_cast<std::size_t>(j)].offers, 1.0f, key.data<float>() + j * kHeadDim);
  }
  const Tensor weights =
      headway::attention(heard, key, key, {.scale = 6.0, .weights = headway::Weights::per_head}).weights;

  std::printf("   ... because it was too %s:\n", words.back().text);
  for (const int j : {1, 5}) {
    const double weight = weights.at({0, 0, 0, j});
    std::string bar;
    for (int k = 0; k < static_cast<int>(std::lround(weight * 40.0)); ++k) bar += "█";
    std::printf("      it -> %-7s %3.0f%% %s\n", words[static_cast<std::size_t>(j)].text, 100.0 * weight, bar.c_str());
  }
}

void show_sentence() {
  std::printf("2. A sentence looks at itself\n\n");
  std::printf("   Rows look at columns; stronger is more. headway::attention computes the weights;\n");
  std::printf("   the word vectors are made by hand to be readable: nothing here was trained.\n\n");
  const std::vector<Word> tired = sentence(kTired);
  const headway::AttentionResult first = look_around(tired);
  draw_heat_maps(tired, first.weights);
  std::printf("   On the right, \"it\" looks at the last word, which tells it what could be so. Now it\n");
  std::printf("   looks again, for that. Change the last word, and it finds another noun:\n\n");
  show_second_look(tired, first);
  const std::vector<Word> wide = sentence(kWide);
  show_second_look(wide, look_around(wide));
  std::printf("\n");
}

// ---- 3. speed ----

void show_speed() {
  constexpr std::int64_t kHeads = 8, kLength = 2048, kDim = 64;
  const headway::Shape shape = {1, kHeads, kLength, kDim};  // [batch, heads, length, head_dim]
  const Tensor query = Tensor::randn(shape, 1);
  const Tensor key = Tensor::randn(shape, 2);
  const Tensor value = Tensor::randn(shape, 3);
  headway::attention(query, key, value);  // starts the threads

  double seconds = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    headway::attention(query, key, value);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    seconds = std::min(seconds, elapsed.count());
  }
  const double operations = 4.0 * kHeads * kLength * kLength * kDim;  // two products, a multiply and an add each
  std::printf("3. Speed\n\n   %d heads of %d over %d words in float32: %.1f ms, %.0f GFLOP/s (best of 5)\n",
              static_cast<int>(kHeads), static_cast<int>(kDim), static_cast<int>(kLength), 1e3 * seconds,
              1e-9 * operations / seconds);
  std::printf("   Headway %s, %s, %d thread%s\n", headway::version().c_str(), headway::instruction_set().c_str(),
              headway::num_threads(), headway::num_threads() == 1 ? "" : "s");
}

}  // namespace

int main() {
  try {
    show_shapes();
    show_sentence();
    show_speed();
  } catch (const headway::Error& error) {
    std::fprintf(stderr, "demo: %s\n", error.what());
    return 1;
  }
  return 0;
}
