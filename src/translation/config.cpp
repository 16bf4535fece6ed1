// Reading, setting, checking and writing the configuration of a training run.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/files.h"
#include "base/json.h"
#include "translation/config_fields.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using Config = TranslationTrainingConfig;
namespace fs = std::filesystem;

// A language's code becomes one token, as ">>deu<<", in front of the source.
void check_language(std::string_view where, std::string_view name, const std::string& code) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  check(!code.empty() && std::all_of(code.begin(), code.end(), allowed), where, ": ", name, " is \"", code,
        "\", expected a code of letters, digits, - and _ such as \"deu\"");
}

// Throws where the name is unknown, or that GPU is missing.
void check_device(std::string_view where, const std::string& device) {
  try {
    Device::parse(device);
  } catch (const Error& error) {
    fail(where, ": device is \"", device, "\", which cannot be used: ", error.what());
  }
}

// Reads one field by `read`; an enumeration by the name of its value.
template <typename Read>
void read_field(Config& config, const ConfigEntry& entry, std::string_view where, const Read& read) {
  std::visit(
      [&](auto place) {
        using Value = std::remove_reference_t<decltype(config.*place)>;
        if constexpr (std::is_enum_v<Value>) {
          std::string name;
          read(name);
          config.*place = static_cast<Value>(choice_value(entry, name, where));
        } else {
          read(config.*place);
        }
      },
      entry.place);
  check_value(where, config, entry);
}

// Reads the value of a JSON field by the type of its member.
class FromJson {
 public:
  FromJson(std::string_view where, std::string_view name, const Json& value)
      : where_(where), name_(name), value_(value) {}

  void operator()(bool& place) const {
    expect(value_.is_boolean(), "true or false");
    place = value_.boolean();
  }
  void operator()(std::int64_t& place) const {
    expect(value_.is_int64(), "a whole number");
    place = value_.int64();
  }
  void operator()(std::uint64_t& place) const {
    expect(value_.is_uint64(), "a whole number of 0 or more");
    place = value_.uint64();
  }
  void operator()(double& place) const {
    expect(value_.is_number(), "a number");
    place = value_.number();
  }
  void operator()(std::string& place) const {
    expect(value_.is_string(), "a text");
    place = value_.string();
  }
  void operator()(fs::path& place) const {
    expect(value_.is_string(), "a path as text");
    place = value_.string();
  }

 private:
  void expect(bool condition, const char* what) const {
    check(condition, where_, ": ", name_, " is ", condition ? "" : value_.text(), ", expected ", what);
  }

  std::string_view where_;
  std::string_view name_;
  const Json& value_;
};

// Reads a value from text by the type of its member.
class FromText {
 public:
  FromText(std::string_view name, std::string_view text) : name_(name), text_(text) {}

  void operator()(bool& place) const {
    check(text_ == "true" || text_ == "false", "training config: ", name_, " is \"", text_,
          "\", expected true or false");
    place = text_ == "true";
  }
  void operator()(std::int64_t& place) const { number(place, "a whole number"); }
  void operator()(std::uint64_t& place) const { number(place, "a whole number of 0 or more"); }
  void operator()(double& place) const { number(place, "a number"); }
  void operator()(std::string& place) const { place = text_; }
  void operator()(fs::path& place) const { place = text_; }

 private:
  template <typename Number>
  void number(Number& place, const char* what) const {
    Number value{};
    const char* end = text_.data() + text_.size();
    const auto [stop, problem] = std::from_chars(text_.data(), end, value);
    check(problem == std::errc() && stop == end, "training config: ", name_, " is \"", text_, "\", expected ", what);
    place = value;
  }

  std::string_view name_;
  std::string_view text_;
};

}  // namespace

TranslationTrainingConfig config_from_json(const std::string& text, const std::string& where) {
  TranslationTrainingConfig config;
  const Json object = parse_json(text, where, {.comments = true});
  check(object.is_object(), where, ": is of the type ", object.kind_name(), ", expected a JSON object of fields");
  for (const auto& [name, value] : object.fields()) {
    const ConfigEntry& entry = config_entry(name, where);
    read_field(config, entry, where, FromJson(where, name, value));
  }
  return config;
}

}  // namespace internal

TranslationTrainingConfig TranslationTrainingConfig::load(const std::filesystem::path& file) {
  constexpr std::size_t kLargest = std::size_t{1} << 20;
  return internal::config_from_json(internal::read_whole_file(file, {}, {.limit = kLargest}), file.string());
}

void TranslationTrainingConfig::set(std::string_view field, std::string_view value) {
  const internal::ConfigEntry& entry = internal::config_entry(field, "training config");
  TranslationTrainingConfig changed = *this;
  internal::read_field(changed, entry, "training config", internal::FromText(field, value));
  *this = std::move(changed);
}

std::string TranslationTrainingConfig::to_json() const {
  internal::Json object = internal::Json::object();
  for (const internal::ConfigEntry& entry : internal::config_entries()) {
    std::visit(
        [&](auto place) {
          using Value = std::remove_cvref_t<decltype(this->*place)>;
          if constexpr (std::is_enum_v<Value> || std::is_same_v<Value, std::filesystem::path>) {
            object.set(entry.name, internal::config_text(*this, entry));
          } else {
            object.set(entry.name, this->*place);
          }
        },
        entry.place);
  }
  return object.text(2) + "\n";
}

void TranslationTrainingConfig::check() const {
  constexpr std::string_view kWhere = "training config";
  for (const internal::ConfigEntry& entry : internal::config_entries()) internal::check_value(kWhere, *this, entry);
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
