// Porter's stemmer with the extensions of NLTK, rule by rule.
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "headway/rouge.h"

namespace headway::inline v0 {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kIrregularForms = {{{"sky", "sky"},
                                                                                            {"skies", "sky"},
                                                                                            {"dying", "die"},
                                                                                            {"lying", "lie"},
                                                                                            {"tying", "tie"},
                                                                                            {"news", "news"},
                                                                                            {"innings", "inning"},
                                                                                            {"inning", "inning"},
                                                                                            {"outings", "outing"},
                                                                                            {"outing", "outing"},
                                                                                            {"cannings", "canning"},
                                                                                            {"canning", "canning"},
                                                                                            {"howe", "howe"},
                                                                                            {"proceed", "proceed"},
                                                                                            {"exceed", "exceed"},
                                                                                            {"succeed", "succeed"}}};

bool is_vowel_letter(char letter) { return std::string_view("aeiou").find(letter) != std::string_view::npos; }

// Whether each letter is a consonant. A y is one at the beginning and after a vowel.
std::vector<bool> consonants_of(std::string_view word) {
  std::vector<bool> flags;
  for (const char letter : word) {
    if (letter == 'y') {
      flags.push_back(flags.empty() || !flags.back());
    } else {
      flags.push_back(!is_vowel_letter(letter));
    }
  }
  return flags;
}

// How often a vowel is followed by a consonant: Porter's m.
int measure_of(std::string_view stem) {
  const std::vector<bool> consonants = consonants_of(stem);
  int measure = 0;
  for (std::size_t i = 1; i < consonants.size(); ++i) measure += !consonants[i - 1] && consonants[i];
  return measure;
}

bool has_vowel(std::string_view stem) {
  const std::vector<bool> consonants = consonants_of(stem);
  return std::find(consonants.begin(), consonants.end(), false) != consonants.end();
}

bool ends_in_double_consonant(std::string_view word) {
  return word.size() >= 2 && word.back() == word[word.size() - 2] && consonants_of(word).back();
}

// Consonant, vowel, consonant other than w, x and y at the end; or a word of a vowel and a consonant.
bool ends_in_short_syllable(std::string_view word) {
  const std::vector<bool> consonants = consonants_of(word);
  const std::size_t size = word.size();
  if (size == 2) return !consonants[0] && consonants[1];
  return size >= 3 && consonants[size - 3] && !consonants[size - 2] && consonants[size - 1] &&
         std::string_view("wxy").find(word.back()) == std::string_view::npos;
}

struct SuffixRule {
  std::string_view suffix;
  std::string_view replacement;
};

// Applies the first rule whose suffix the word has, provided that the rest has a measure of more than `more_than`.
std::string with_rules(const std::string& word, std::span<const SuffixRule> rules, int more_than) {
  for (const SuffixRule& rule : rules) {
    if (!word.ends_with(rule.suffix)) continue;
    std::string stem = word.substr(0, word.size() - rule.suffix.size());
    return measure_of(stem) > more_than ? stem.append(rule.replacement) : word;
  }
  return word;
}

constexpr int kAlways = -1;  // a measure that every stem exceeds

std::string without_plural(const std::string& word) {
  if (word.ends_with("ies") && word.size() == 4) return word.substr(0, 3);
  constexpr SuffixRule kRules[] = {{"sses", "ss"}, {"ies", "i"}, {"ss", "ss"}, {"s", ""}};
  return with_rules(word, kRules, kAlways);
}

std::string without_ed_or_ing(const std::string& word) {
  if (word.ends_with("ied")) return word.substr(0, word.size() - (word.size() == 4 ? 1 : 2));
  if (word.ends_with("eed")) {
    return measure_of(std::string_view(word).substr(0, word.size() - 3)) > 0 ? word.substr(0, word.size() - 1) : word;
  }
  const std::size_t ending = word.ends_with("ed") ? 2 : word.ends_with("ing") ? 3 : 0;
  std::string stem = word.substr(0, word.size() - ending);
  if (ending == 0 || !has_vowel(stem)) return word;
  if (stem.ends_with("at") || stem.ends_with("bl") || stem.ends_with("iz")) return stem + "e";
  if (ends_in_double_consonant(stem)) {
    if (std::string_view("lsz").find(stem.back()) == std::string_view::npos) stem.pop_back();
    return stem;
  }
  return measure_of(stem) == 1 && ends_in_short_syllable(stem) ? stem + "e" : stem;
}

std::string with_i_for_y(const std::string& word) {
  const std::string stem = word.substr(0, word.size() - 1);
  return word.ends_with('y') && stem.size() > 1 && consonants_of(stem).back() ? stem + "i" : word;
}

std::string without_double_suffix(std::string word) {
  while (word.ends_with("alli") && measure_of(std::string_view(word).substr(0, word.size() - 4)) > 0) {
    word.resize(word.size() - 2);
  }
  constexpr SuffixRule kRules[] = {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"},
                                   {"izer", "ize"},    {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"},
                                   {"eli", "e"},       {"ousli", "ous"},   {"ization", "ize"}, {"ation", "ate"},
                                   {"ator", "ate"},    {"alism", "al"},    {"iveness", "ive"}, {"fulness", "ful"},
                                   {"ousness", "ous"}, {"aliti", "al"},    {"iviti", "ive"},   {"biliti", "ble"},
                                   {"fulli", "ful"}};
  if (!word.ends_with("logi")) return with_rules(word, kRules, 0);
  // The l counts as part of the stem, so that "geo" is treated as "archaeo" is.
  const std::string stem = word.substr(0, word.size() - 3);
  return measure_of(stem) > 0 ? stem + "og" : word;
}

std::string without_final_e(const std::string& word) {
  if (!word.ends_with('e')) return word;
  std::string stem = word.substr(0, word.size() - 1);
  const int measure = measure_of(stem);
  return measure > 1 || (measure == 1 && !ends_in_short_syllable(stem)) ? stem : word;
}

std::string without_single_suffix(const std::string& word) {
  constexpr SuffixRule kFirst[] = {{"al", ""},   {"ance", ""}, {"ence", ""},  {"er", ""},   {"ic", ""}, {"able", ""},
                                   {"ible", ""}, {"ant", ""},  {"ement", ""}, {"ment", ""}, {"ent", ""}};
  constexpr SuffixRule kRest[] = {{"ou", ""},  {"ism", ""}, {"ate", ""}, {"iti", ""},
                                  {"ous", ""}, {"ive", ""}, {"ize", ""}};
  if (word.ends_with("ion")) {
    std::string stem = word.substr(0, word.size() - 3);
    return measure_of(stem) > 1 && (stem.back() == 's' || stem.back() == 't') ? stem : word;
  }
  for (const SuffixRule& rule : kFirst) {
    if (word.ends_with(rule.suffix)) return with_rules(word, kFirst, 1);
  }
  return with_rules(word, kRest, 1);
}

}  // namespace

std::string porter_stem(std::string_view word) {
  for (const auto& [form, stem] : kIrregularForms) {
    if (word == form) return std::string(stem);
  }
  if (word.size() <= 2) return std::string(word);
  constexpr SuffixRule kThird[] = {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"},
                                   {"ical", "ic"},  {"ful", ""},   {"ness", ""}};
  std::string stem = with_i_for_y(without_ed_or_ing(without_plural(std::string(word))));
  stem = without_single_suffix(with_rules(without_double_suffix(std::move(stem)), kThird, 0));
  stem = without_final_e(stem);
  // "controll" becomes "control", but "roll" stays.
  if (stem.ends_with("ll") && measure_of(std::string_view(stem).substr(0, stem.size() - 1)) > 1) stem.pop_back();
  return stem;
}

}  // namespace headway::inline v0
