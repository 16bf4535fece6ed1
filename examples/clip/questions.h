// Yes/no questions on pictures: what is asked, and a small model whose words look at the patches of a picture.
#pragma once

#include <headway/headway.h>

#include <cctype>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "clip/emoji.h"

namespace emoji {

// A thing to ask for: pictures whose captions have one of the words `seen` show it; pictures with one of `unsure` are
// not asked, because their captions leave it open.
struct Thing {
  std::string name;
  std::string seen;
  std::string unsure;
};

inline const std::vector<Thing>& things() {
  static const std::vector<Thing> all = {
      {"woman", "woman women girl", "mermaid princess mrs queen bride female"},
      {"man", "man men boy", "merman prince santa father male levitating"},
      {"hat",
       "hat cap helmet claus pilot farmer cook student artist mechanic police guard detective mage skullcap "
       "firefighter "
       "construction factory levitating partying cowboy",
       "biking golfing skier snowboarder horse astronaut rowing polo crown bunny turban veil headscarf genie snowman "
       "ninja pirate prince princess climbing disguised flag family couple kiss"},
      {"glasses", "glasses sunglasses goggles scientist detective factory nerd",
       "superhero supervillain monocle disguised singer skier snowboarder astronaut health teacher"},
      {"heart", "heart hearts couple kiss", "love family card mark suit flag"},
      {"wheelchair", "wheelchair", "symbol accessible"},
      {"cane", "cane", "older old mage farmer golfing"},
      {"baby", "baby feeding", "pregnant family child angel symbol bottle chick"},
      {"ball",
       "ball balls handball polo juggling basketball baseball football volleyball softball soccer tennis bowling pool",
       "golfing cricket lacrosse hockey crystal rugby flag"},
      {"turban", "turban", "genie headscarf skullcap"},
      {"veil", "veil", "headscarf"},
      {"beard", "beard", "mage genie claus santa turban older old dwarf wizard"},
      {"boat", "boat ship canoe sailboat speedboat ferry rowing", "anchor flag"},
      {"bicycle", "biking bicycle bicycles", "bike scooter motorcycle"},
      {"computer", "technologist laptop computer", "desktop office"},
      {"chart", "office chart", "teacher health"},
      {"flag", "flag flags", "golf golfing hole"},
      {"clock", "clock o", "watch timer hourglass button blood flag"},
      {"moon", "moon", "night crescent flag"},
      {"arrow", "arrow arrows", "bow heart cupid button back end on soon top"},
      {"crown", "crown prince princess", "queen king"},
      {"cook", "cook", "cooking"},
      {"farmer", "farmer", ""},
      {"pilot", "pilot", ""},
      {"student", "student", ""},
      {"singer", "singer", ""},
      {"artist", "artist", ""},
      {"teacher", "teacher", ""},
      {"scientist", "scientist", ""},
      {"mechanic", "mechanic", ""},
      {"judge", "judge", ""},
      {"astronaut", "astronaut", ""},
      {"firefighter", "firefighter", ""},
      {"guard", "guard", ""},
      {"detective", "detective", ""},
      {"mage", "mage", ""},
      {"vampire", "vampire", ""},
      {"fairy", "fairy", ""},
      {"elf", "elf", ""},
      {"superhero", "superhero", "supervillain"},
  };
  return all;
}

// Words in lower case: "is there a hat?" -> is, there, a, hat.
inline std::vector<std::string> plain_words(const std::string& text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = std::isalnum(byte) != 0 || byte >= 0x80;
    if (letter && !inside) words.emplace_back();
    if (letter) words.back() += static_cast<char>(std::tolower(byte));
    inside = letter;
  }
  return words;
}

enum class Truth { no, yes, open };

inline Truth truth_of(const Thing& thing, const std::string& caption) {
  const std::vector<std::string> words = plain_words(caption), seen = plain_words(thing.seen),
                                 unsure = plain_words(thing.unsure);
  const auto has = [&](const std::vector<std::string>& some) {
    return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return std::find(some.begin(), some.end(), word) != some.end();
    });
  };
  return has(unsure) ? Truth::open : has(seen) ? Truth::yes : Truth::no;
}

// The pictures of a part that show a thing and that do not.
struct Answers {
  std::vector<std::size_t> yes, no;
};

inline std::vector<Answers> answers_of(const std::vector<Emoji>& all, const std::vector<std::size_t>& part) {
  std::vector<Answers> answers;
  for (const Thing& thing : things()) {
    answers.emplace_back();
    for (const std::size_t i : part) {
      const Truth truth = truth_of(thing, all[i].caption);
      if (truth == Truth::yes) answers.back().yes.push_back(i);
      if (truth == Truth::no) answers.back().no.push_back(i);
    }
  }
  return answers;
}

// The words of a question attend to one another and then to the patches of a picture, of which the picture tower's last
// hidden states tell; yes or no is read from the last word, the thing. 131 thousand parameters.
class QuestionModel : public headway::Module {
 public:
  static constexpr std::int64_t kWidth = 96, kHeads = 4, kHidden = 192, kLongest = 8;

  QuestionModel(std::vector<std::string> words, std::int64_t picture_width)
      : words_(std::move(words)),
        norm_({.width = picture_width}),
        projection_({.in_features = picture_width, .out_features = kWidth}),
        embedding_({.count = static_cast<std::int64_t>(words_.size()), .width = kWidth}),
        positions_({.max_length = kLongest, .width = kWidth}),
        block_({.width = kWidth, .heads = kHeads, .hidden = kHidden, .cross_attention = true, .dropout = 0.1}),
        final_norm_({.width = kWidth}),
        output_({.in_features = kWidth, .out_features = 2}) {
    add_module("norm", norm_);
    add_module("projection", projection_);
    add_module("embedding", embedding_);
    add_module("positions", positions_);
    add_module("block", block_);
    add_module("final_norm", final_norm_);
    add_module("output", output_);
  }

  struct Result {
    Tensor logits;   // [batch, 2]: no, yes
    Tensor weights;  // [batch, heads, words, 1 + patches], on request
  };
  // words [batch, length]; states [batch, 1 + patches, width] of the picture tower.
  Result forward(const Tensor& words, const Tensor& states, headway::Weights weights = headway::Weights::none) const {
    const Tensor memory = projection_.forward(norm_.forward(states));
    const auto result =
        block_.forward({.x = positions_.forward(embedding_.forward(words)), .memory = memory, .weights = weights});
    return {output_.forward(final_norm_.forward(result.output).select(1, -1)), result.cross_weights};
  }

  // The numbers of a question's words, of which the last is the thing. An Error names a word that is not known, and
  // what can be asked.
  std::vector<std::int64_t> encode(const std::string& question) const {
    std::vector<std::int64_t> ids;
    for (const std::string& written : plain_words(question)) {
      const std::string word = written == "an" ? "a" : written;
      const auto found = std::find(words_.begin(), words_.end(), word);
      if (found == words_.end()) {
        throw headway::Error("the question has the word \"" + word +
                             "\", which the model has never seen; ask \"is there a X?\" with one of: " + known());
      }
      ids.push_back(found - words_.begin());
    }
    if (ids.size() != 4 || ids[0] != 0 || ids[1] != 1 || ids[2] != 2 || ids[3] < 3) {
      throw headway::Error("the question is \"" + question + "\", expected one of the form \"is there a hat?\"");
    }
    return ids;
  }

  // "is", "there", "a" and the things.
  static std::vector<std::string> all_words() {
    std::vector<std::string> words = {"is", "there", "a"};
    for (const Thing& thing : things()) words.push_back(thing.name);
    return words;
  }

  // One file beside the towers, in float16, with the words in its metadata.
  void save(const std::filesystem::path& file) const {
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, tensor] : state_dict()) tensors[name] = tensor.detach().to(headway::DType::float16);
    std::string words;
    for (const std::string& word : words_) words += (words.empty() ? "" : " ") + word;
    headway::save_safetensors(file, tensors, {{"format", "pt"}, {"words", words}});
  }
  static QuestionModel load(const std::filesystem::path& file) {
    const headway::SafeTensors tensors = headway::SafeTensors::open(file);
    const auto words = tensors.metadata().find("words");
    if (words == tensors.metadata().end()) throw headway::Error(file.string() + ": its metadata has no \"words\"");
    QuestionModel model(plain_words(words->second), tensors.get("norm.weight").size(0));
    model.load_state_dict(headway::load_safetensors(file));
    model.eval();
    return model;
  }

 private:
  std::string known() const {
    std::string text;
    for (std::size_t i = 3; i < words_.size(); ++i) text += (i > 3 ? ", " : "") + words_[i];
    return text;
  }

  std::vector<std::string> words_;
  headway::LayerNorm norm_;
  headway::Linear projection_;
  headway::Embedding embedding_;
  headway::LearnedPositions positions_;
  headway::TransformerBlock block_;
  headway::LayerNorm final_norm_;
  headway::Linear output_;
};

}  // namespace emoji
