#include "captions/evaluate.h"

#include <headway/image_captioner.h>

#include <cctype>
#include <cstdio>
#include <iostream>
#include <map>

namespace captions {
namespace {

// Runs of letters, digits and characters beyond ASCII; other characters alone.
std::map<std::string, int> words_of(const std::string& text) {
  std::map<std::string, int> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) ++words[word];
    word.clear();
  };
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || std::isalnum(byte) || c == '_') {
      word += c;
      continue;
    }
    end_word();
    if (!std::isspace(byte)) ++words[std::string(1, c)];
  }
  end_word();
  return words;
}

// The picture on its background, in the size that was asked for.
headway::Picture shown_picture(const Emoji& emoji, const EvaluationOptions& options) {
  const headway::Tensor rgba =
      headway::resize(headway::read_picture(emoji.picture, 4).pixels, options.side, options.side);
  const headway::Tensor alpha = rgba.slice(2, 3, 4), colours = rgba.slice(2, 0, 3);
  const headway::Tensor rest = headway::sub(headway::Tensor::full({1, 1, 1}, 1.0), alpha);
  return {.pixels = headway::add(headway::mul(colours, alpha), headway::scale(rest, options.background)), .notes = ""};
}

struct Scores {
  double exact = 0.0, f1 = 0.0;
};

Scores scores_of(const headway::ImageCaptioner& captioner, const std::vector<Emoji>& emoji,
                 const std::vector<headway::Picture>& pictures, std::int64_t beams, bool show_wrong) {
  const std::vector<headway::Caption> captions = captioner.caption(pictures, {.beams = beams});
  Scores scores;
  for (std::size_t i = 0; i < emoji.size(); ++i) {
    const std::string& expected = emoji[i].caption;
    const std::string& found = captions[i].text();
    scores.exact += expected == found ? 1.0 : 0.0;
    scores.f1 += word_f1(expected, found);
    if (show_wrong && expected != found) std::cout << "  " << expected << "  ->  " << found << '\n';
  }
  scores.exact /= static_cast<double>(emoji.size());
  scores.f1 /= static_cast<double>(emoji.size());
  return scores;
}

}  // namespace

double word_f1(const std::string& expected, const std::string& found) {
  const std::map<std::string, int> a = words_of(expected), b = words_of(found);
  int shared = 0, all = 0;
  for (const auto& [word, count] : a) {
    all += count;
    const auto other = b.find(word);
    if (other != b.end()) shared += std::min(count, other->second);
  }
  for (const auto& [word, count] : b) all += count;
  return all == 0 ? 1.0 : 2.0 * shared / all;
}

void evaluate(const std::filesystem::path& model, const std::vector<Emoji>& emoji, const EvaluationOptions& options) {
  const headway::ImageCaptioner captioner(model);
  std::printf("%-22s %9s %6s %8s %8s\n", "part", "pictures", "beams", "exact", "word F1");
  for (const auto& [part, name] :
       {std::pair{Part::combination, "unseen combinations"}, std::pair{Part::kind, "unseen kinds"}}) {
    const std::vector<Emoji> items = part_of(emoji, part);
    if (items.empty()) continue;
    std::vector<headway::Picture> pictures;
    for (const Emoji& item : items) pictures.push_back(shown_picture(item, options));
    for (const std::int64_t beams : {1, 4}) {
      const Scores scores = scores_of(captioner, items, pictures, beams, options.show_wrong && beams == 1);
      std::printf("%-22s %9zu %6d %8.4f %8.4f\n", name, items.size(), static_cast<int>(beams), scores.exact, scores.f1);
      std::fflush(stdout);
    }
  }
}

}  // namespace captions
