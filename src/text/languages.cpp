#include "text/languages.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace headway::inline v0::internal {
namespace {

struct Language {
  std::string_view english;  // its name
  std::string_view names;    // codes and the name in itself, separated by spaces
  std::string_view common;   // its most common short words, lower case; empty: not known
};

constexpr std::array kLanguages = {
    Language{
        "German", "deu de ger deutsch",
        "der die das und ist nicht ich du er sie es wir ihr ein eine einen dem den des zu mit auf für von im wie was "
        "war hat haben sind kann auch aber wenn sich mich mir dir dich noch nur bei nach aus wer wo uns mein dein"},
    Language{
        "English", "eng en",
        "the and is are was were i you he she it we they a an of to in that not do does did have has had this what "
        "with for on at be my your his her me him us them will can don't isn't it's i'm there who how why if"},
    Language{
        "French", "fra fr fre français",
        "le la les et est pas je tu il elle nous vous un une des de du que qui ne dans pour ce en au à c'est j'ai a "
        "son sa mon ma avec sur plus où"},
    Language{
        "Spanish", "spa es español",
        "el la los las y es no yo tú él ella un una de del que en por para con se lo su mi me te está son como más "
        "qué pero muy"},
    Language{"Italian", "ita it italiano",
             "il lo la i gli le e è non io tu lui lei un una di del che in per con si mi ti sono ha ho come più ma"},
    Language{"Portuguese", "por pt português",
             "o a os as e é não eu tu ele ela um uma de do da que em por para com se está são como mais mas muito"},
    Language{"Dutch", "nld nl dut nederlands",
             "de het een en is niet ik jij hij zij wij van in op met voor dat die wat te zijn heeft was er maar ook"},
    Language{"Swedish", "swe sv svenska",
             "och är inte jag du han hon det en ett att i på som för med av den har vi var"},
    Language{"Danish", "dan da dansk", "og er ikke jeg du han hun det en et at i på som for med af den har vi var"},
    Language{"Norwegian", "nob no nb nor norsk",
             "og er ikke jeg du han hun det en et å i på som for med av den har vi var"},
    Language{"Finnish", "fin fi suomi", "ja on ei minä sinä hän se että en ole oli mutta kun mitä tämä"},
    Language{"Polish", "pol pl polski", "i jest nie ja ty on ona to w na z że się do co jak ale tak"},
    Language{"Czech", "ces cs cze čeština", "a je není já ty on ona to v na s že se do co jak ale"},
    Language{"Hungarian", "hun hu magyar", "a az és nem én te ő egy hogy van volt ez meg is"},
    Language{"Turkish", "tur tr türkçe", "ve bir bu ben sen o için de da ne çok var değil"},
    Language{"Esperanto", "epo eo", "la kaj estas ne mi vi li ŝi ĝi de en al ke por kun"},
    Language{"Russian", "rus ru русский", "и в не я он она что это на ты мы с как у по но"},
    Language{"Ukrainian", "ukr uk українська", "і в не я він вона що це на ти ми з як у по але"},
    Language{"Chinese", "zho zh cmn chi 中文", ""},
    Language{"Japanese", "jpn ja 日本語", ""},
    Language{"Korean", "kor ko 한국어", ""},
    Language{"Arabic", "ara ar العربية", ""},
    Language{"Hebrew", "heb he עברית", ""},
    Language{"Greek", "ell el gre ελληνικά", "και είναι δεν το η ο να με για τι"},
    Language{"Romanian", "ron ro rum română", "și este nu eu tu el ea un o de la că în cu pe"},
    Language{"Hindi", "hin hi हिन्दी", ""},
    Language{"Vietnamese", "vie vi", ""},
};

// ASCII letters in lower case; other letters are unchanged, and the tables have them in their usual case.
std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// Calls visit(word) for each word between spaces and ASCII punctuation; apostrophes belong to words.
template <typename Visit>
void for_each_word(std::string_view text, const Visit& visit) {
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '\'' || static_cast<unsigned char>(c) >= 0x80;
  };
  std::size_t i = 0;
  while (i < text.size()) {
    while (i < text.size() && !in_word(text[i])) ++i;
    const std::size_t first = i;
    while (i < text.size() && in_word(text[i])) ++i;
    if (i > first) visit(text.substr(first, i - first));
  }
}

bool has_word(std::string_view words, std::string_view word) {
  bool found = false;
  std::size_t i = 0;
  while (i < words.size() && !found) {
    const std::size_t end = std::min(words.find(' ', i), words.size());
    found = words.substr(i, end - i) == word;
    i = end + 1;
  }
  return found;
}

const Language* language_of(std::string_view name) {
  // A script or a country after the code is not part of the language: "zho_Hans", "pt-BR".
  const std::string plain = lower(name.substr(0, name.find_first_of("_-")));
  for (const Language& language : kLanguages) {
    if (lower(language.english) == plain || has_word(language.names, plain)) return &language;
  }
  return nullptr;
}

// Points for a language: common words, and for German its own letters.
int points(std::string_view text, const Language& language, const Language& other) {
  int count = 0;
  for_each_word(text, [&](std::string_view word) {
    const std::string small = lower(word);
    if (has_word(language.common, small) && !has_word(other.common, small)) ++count;
  });
  if (has_word(language.names, "deu") && !has_word(other.names, "tur") && !has_word(other.names, "swe")) {
    for (const char* letter : {"ä", "ö", "ü", "ß", "Ä", "Ö", "Ü"}) {
      if (text.find(letter) != std::string_view::npos) ++count;
    }
  }
  return count;
}

}  // namespace

std::optional<std::string> find_language(std::string_view name, const std::vector<std::string>& codes) {
  for (const std::string& code : codes) {
    if (lower(code) == lower(name)) return code;
  }
  const Language* wanted = language_of(name);
  if (!wanted) return {};
  for (const std::string& code : codes) {
    if (language_of(code) == wanted) return code;
  }
  return {};
}

std::string language_name(std::string_view code) {
  const Language* language = code.find_first_of("_-") == std::string_view::npos ? language_of(code) : nullptr;
  return std::string(language ? language->english : code);
}

CodedText split_language_code(std::string_view text, const std::vector<std::string>& codes) {
  constexpr std::string_view kOpening = ">>", kClosing = "<<";
  const std::size_t end = text.starts_with(kOpening) ? text.find(kClosing) : std::string_view::npos;
  if (end == std::string_view::npos) return {{}, text};
  const std::string_view code = text.substr(kOpening.size(), end - kOpening.size());
  if (std::find(codes.begin(), codes.end(), code) == codes.end()) return {{}, text};
  return {code, text.substr(end + kClosing.size())};
}

std::optional<std::string> choose_target_language(std::string_view text, const std::vector<std::string>& codes) {
  if (codes.empty()) return "";
  if (codes.size() == 1) return codes.front();
  if (codes.size() > 2) return {};
  const std::optional<std::string> from = guess_language(text, codes[0], codes[1]);
  if (!from) return {};
  return codes[*from == codes[0] ? 1 : 0];
}

std::optional<std::string> guess_language(std::string_view text, const std::string& first, const std::string& second) {
  const Language* a = language_of(first);
  const Language* b = language_of(second);
  if (!a || !b || a == b || a->common.empty() || b->common.empty()) return {};
  const int for_a = points(text, *a, *b), for_b = points(text, *b, *a);
  if (for_a == for_b) return {};
  return for_a > for_b ? first : second;
}

}  // namespace headway::inline v0::internal
