// Reading, setting, checking and writing the configuration of a training run.
#include <algorithm>

#include "base/check.h"
#include "base/files.h"
#include "translation/config_fields.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// A language's code becomes one token, as ">>deu<<", in front of the source.
void check_language(std::string_view where, std::string_view name, const std::string& code) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  check(!code.empty() && std::all_of(code.begin(), code.end(), allowed), where, ": ", name, " is \"", code,
        "\", expected a code of letters, digits, - and _ such as \"deu\"");
}

}  // namespace
}  // namespace internal

TranslationTrainingConfig TranslationTrainingConfig::load(const std::filesystem::path& file) { return load(file, {}); }

TranslationTrainingConfig TranslationTrainingConfig::load(const std::filesystem::path& file,
                                                          const TranslationTrainingConfig& base) {
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  const std::string text = internal::read_whole_file(file, {}, {.limit = kLargest});
  return internal::translation_config_table().from_json(text, file.string(), base);
}

void TranslationTrainingConfig::set(std::string_view field, std::string_view value) {
  internal::translation_config_table().set(*this, field, value);
}

std::string TranslationTrainingConfig::to_json() const { return internal::translation_config_table().to_json(*this); }

void TranslationTrainingConfig::check() const {
  constexpr std::string_view kWhere = "training config";
  internal::translation_config_table().check(*this);
  internal::check_language(kWhere, "source_language", source_language);
  internal::check_language(kWhere, "target_language", target_language);
  internal::check(source_language != target_language, kWhere, ": source_language and target_language are both \"",
                  source_language, "\", expected two languages");
  internal::check(width % 2 == 0, kWhere, ": width is ", width, ", expected an even number");
  internal::check(width % heads == 0, kWhere, ": heads is ", heads, ", which does not divide width, ", width);
  internal::check_device(kWhere, device);
  internal::check(!output.empty(), kWhere, ": output is empty, expected a directory");
}

}  // namespace headway::inline v0
