// Configs as tables: one entry per field with its name, member, range and help. Reading, setting, checking and writing
// a config follow from its table.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "headway/training_run.h"

namespace headway::inline v0::internal {

// Whether a resumed run may have another value than the run that it continues.
enum class OnResume { free, fixed };

// The upper bound of fields that have none: beyond any count, and its product with a width or a million fits 64 bits.
inline constexpr double kMostCount = 1e12;
inline constexpr double kMaxSeed = 18446744073709551615.0;

// The value of a field. A path is its text, an enumeration the name of its value.
using ConfigValue = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;

// A value that an enumeration may have, and its name in files and on the command line.
struct ConfigChoice {
  int value;
  std::string_view name;
};

// What a field may hold, whatever the config.
struct ConfigRule {
  std::string_view name;
  OnResume on_resume = OnResume::free;
  double least = 0.0;                      // of numbers
  double most = 0.0;                       // of numbers
  std::vector<ConfigChoice> choices = {};  // of enumerations
  std::string_view help;
  bool is_path = false;
};

// A value of the kind that `like` has, from a JSON value or from text; an Error begins with `where` and names the
// field.
ConfigValue config_value(const ConfigValue& like, const Json& value, const ConfigRule& rule, std::string_view where);
ConfigValue config_value(const ConfigValue& like, std::string_view text, const ConfigRule& rule,
                         std::string_view where);
std::string config_value_text(const ConfigValue& value);
Json config_value_json(const ConfigValue& value);
// Throws an Error where a number is out of its range, or an enumeration has a value that the field does not allow.
void check_config_value(const ConfigValue& value, const ConfigRule& rule, std::string_view where);
// The value of an enumeration with a given name; an Error lists the choices and begins with `where`.
int choice_value(const ConfigRule& rule, std::string_view name, std::string_view where);
// The name of an enumeration's value; "value 3" for one that the field does not allow.
std::string choice_name(const ConfigRule& rule, int value);
// "help: a, b or c", for a list of options.
std::string config_help(const ConfigRule& rule);
// The name of those given that differs least from `name`.
std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& names);
// Throws where the name is unknown, or that GPU is missing.
void check_device(std::string_view where, const std::string& device);

template <typename Config>
struct ConfigEntry {
  ConfigRule rule;
  std::function<ConfigValue(const Config&)> get;
  std::function<void(Config&, const ConfigValue&)> set;
};

template <typename Config>
class ConfigTable {
 public:
  using Entry = ConfigEntry<Config>;

  // `what` names the config in messages, as "training config".
  explicit ConfigTable(std::string what) : what_(std::move(what)) {}

  template <typename Number>
  void number(std::string_view name, Number Config::*place, OnResume on_resume, std::pair<double, double> range,
              std::string_view help) {
    add({.name = name, .on_resume = on_resume, .least = range.first, .most = range.second, .help = help}, place);
  }
  // Texts, paths and booleans.
  template <typename Value>
  void text(std::string_view name, Value Config::*place, OnResume on_resume, std::string_view help) {
    constexpr bool kPath = std::is_same_v<Value, std::filesystem::path>;
    add({.name = name, .on_resume = on_resume, .help = help, .is_path = kPath}, place);
  }
  template <typename Enum>
  void choice(std::string_view name, Enum Config::*place, OnResume on_resume,
              std::initializer_list<std::pair<Enum, std::string_view>> choices, std::string_view help) {
    ConfigRule rule{.name = name, .on_resume = on_resume, .help = help};
    for (const auto& [value, word] : choices) rule.choices.push_back({static_cast<int>(value), word});
    entries_.push_back(
        {rule, [rule, place](const Config& config) { return choice_name(rule, static_cast<int>(config.*place)); },
         [rule, place, what = what_](Config& config, const ConfigValue& value) {
           config.*place = static_cast<Enum>(choice_value(rule, std::get<std::string>(value), what));
         }});
  }
  // Another name that files may have for a field.
  void alias(std::string_view other, std::string_view name) { aliases_.emplace_back(other, name); }

  // All fields in order.
  const std::vector<Entry>& entries() const { return entries_; }
  // The entry of a name; an Error for an unknown name suggests the nearest one and begins with `where`.
  const Entry& find(std::string_view name, std::string_view where) const {
    for (const auto& [other, real] : aliases_) {
      if (other == name) name = real;
    }
    std::vector<std::string_view> names;
    for (const Entry& entry : entries_) {
      if (entry.rule.name == name) return entry;
      names.push_back(entry.rule.name);
    }
    fail(where, ": there is no field \"", name, "\"; the nearest is \"", nearest_name(name, names), "\"");
  }

  // A field's value as text: what set() takes.
  std::string text_of(const Config& config, std::string_view name) const {
    return config_value_text(find(name, what_).get(config));
  }

  // Fields that the text does not have keep the value of `config`.
  Config from_json(std::string_view text, std::string_view where, Config config = {}) const {
    const Json object = parse_json(text, where, {.comments = true});
    internal::check(object.is_object(), where, ": is of the type ", object.kind_name(),
                    ", expected a JSON object of fields");
    for (const auto& [name, value] : object.fields()) {
      const Entry& entry = find(name, where);
      assign(config, entry, config_value(entry.get(config), value, entry.rule, where), where);
    }
    return config;
  }
  std::string to_json(const Config& config) const {
    Json object = Json::object();
    for (const Entry& entry : entries_) object.set(entry.rule.name, config_value_json(entry.get(config)));
    return object.text(2) + "\n";
  }
  void set(Config& config, std::string_view field, std::string_view text) const {
    const Entry& entry = find(field, what_);
    Config changed = config;
    assign(changed, entry, config_value(entry.get(config), text, entry.rule, what_), what_);
    config = std::move(changed);
  }
  // Throws an Error where a value is out of its range.
  void check(const Config& config) const {
    for (const Entry& entry : entries_) check_config_value(entry.get(config), entry.rule, what_);
  }
  // Throws an Error that names the field where a run with `config` cannot continue one with `earlier`.
  void check_resumable(const Config& config, const Config& earlier) const {
    for (const Entry& entry : entries_) {
      if (entry.rule.on_resume == OnResume::free) continue;
      const std::string now = config_value_text(entry.get(config)), before = config_value_text(entry.get(earlier));
      internal::check(now == before, entry.rule.name, " is ", now, ", and the checkpoints in ", config.output.string(),
                      "/training were made with ", before);
    }
  }
  std::vector<ConfigField> fields() const {
    const Config defaults;
    std::vector<ConfigField> fields;
    for (const Entry& entry : entries_) {
      fields.push_back({std::string(entry.rule.name), config_value_text(entry.get(defaults)), config_help(entry.rule)});
    }
    return fields;
  }
  const std::string& what() const { return what_; }

 private:
  template <typename Value>
  void add(ConfigRule rule, Value Config::*place) {
    if constexpr (std::is_same_v<Value, std::filesystem::path>) {
      entries_.push_back(
          {std::move(rule), [place](const Config& config) { return (config.*place).string(); },
           [place](Config& config, const ConfigValue& value) { config.*place = std::get<std::string>(value); }});
    } else {
      entries_.push_back(
          {std::move(rule), [place](const Config& config) { return config.*place; },
           [place](Config& config, const ConfigValue& value) { config.*place = std::get<Value>(value); }});
    }
  }
  void assign(Config& config, const Entry& entry, const ConfigValue& value, std::string_view where) const {
    check_config_value(value, entry.rule, where);
    entry.set(config, value);
  }

  std::string what_;
  std::vector<Entry> entries_ = {};
  std::vector<std::pair<std::string_view, std::string_view>> aliases_ = {};
};

}  // namespace headway::inline v0::internal
