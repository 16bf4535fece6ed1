// Values of config fields: from JSON and text, ranges, names.
#include "training/config_table.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/number_text.h"
#include "headway/device.h"

namespace headway::inline v0::internal {
namespace {

// What a field of the kind of `like` expects, for messages.
const char* expected_kind(const ConfigValue& like, const ConfigRule& rule) {
  constexpr const char* kKinds[] = {"true or false", "a whole number", "a whole number of 0 or more", "a number",
                                    "a text"};
  return rule.is_path ? "a path as text" : kKinds[like.index()];
}

bool fits(const ConfigValue& like, const Json& value) {
  switch (like.index()) {
    case 0:
      return value.is_boolean();
    case 1:
      return value.is_int64();
    case 2:
      return value.is_uint64();
    case 3:
      return value.is_number();
    default:
      return value.is_string();
  }
}

template <typename Number>
ConfigValue number_value(std::string_view text, const ConfigValue& like, const ConfigRule& rule,
                         std::string_view where) {
  const std::optional<Number> number = parse_number<Number>(text);
  check(number.has_value(), where, ": ", rule.name, " is \"", text, "\", expected ", expected_kind(like, rule));
  return *number;
}

std::string choices_text(const ConfigRule& rule) {
  std::string text;
  for (const ConfigChoice& choice : rule.choices) {
    text += (text.empty() ? "\"" : ", \"") + std::string(choice.name) + "\"";
  }
  return text;
}

template <typename Number>
void check_range(std::string_view where, const ConfigRule& rule, Number value) {
  const auto number = static_cast<double>(value);
  if (number >= rule.least && number <= rule.most) return;
  if (rule.most >= kMostCount) fail(where, ": ", rule.name, " is ", value, ", expected ", rule.least, " or more");
  fail(where, ": ", rule.name, " is ", value, ", expected ", rule.least, " to ", rule.most);
}

// The least number of letters to insert, remove or change.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

ConfigValue config_value(const ConfigValue& like, const Json& value, const ConfigRule& rule, std::string_view where) {
  if (!fits(like, value)) {
    fail(where, ": ", rule.name, " is ", value.text(), ", expected ", expected_kind(like, rule));
  }
  switch (like.index()) {
    case 0:
      return value.boolean();
    case 1:
      return value.int64();
    case 2:
      return value.uint64();
    case 3:
      return value.number();
    default:
      return value.string();
  }
}

ConfigValue config_value(const ConfigValue& like, std::string_view text, const ConfigRule& rule,
                         std::string_view where) {
  switch (like.index()) {
    case 0:
      check(text == "true" || text == "false", where, ": ", rule.name, " is \"", text, "\", expected true or false");
      return text == "true";
    case 1:
      return number_value<std::int64_t>(text, like, rule, where);
    case 2:
      return number_value<std::uint64_t>(text, like, rule, where);
    case 3:
      return number_value<double>(text, like, rule, where);
    default:
      return std::string(text);
  }
}

std::string config_value_text(const ConfigValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const std::string* text = std::get_if<std::string>(&value)) return *text;
  if (const double* number = std::get_if<double>(&value)) return number_text(*number);
  if (const std::int64_t* whole = std::get_if<std::int64_t>(&value)) return number_text(*whole);
  return number_text(std::get<std::uint64_t>(value));
}

Json config_value_json(const ConfigValue& value) {
  return std::visit([](const auto& plain) { return Json(plain); }, value);
}

void check_config_value(const ConfigValue& value, const ConfigRule& rule, std::string_view where) {
  if (const std::int64_t* whole = std::get_if<std::int64_t>(&value)) {
    check_range(where, rule, *whole);
  } else if (const double* real = std::get_if<double>(&value)) {
    check_range(where, rule, *real);
  } else if (!rule.choices.empty()) {
    choice_value(rule, std::get<std::string>(value), where);
  }
}

int choice_value(const ConfigRule& rule, std::string_view name, std::string_view where) {
  for (const ConfigChoice& choice : rule.choices) {
    if (choice.name == name) return choice.value;
  }
  fail(where, ": ", rule.name, " is \"", name, "\", expected one of ", choices_text(rule));
}

std::string choice_name(const ConfigRule& rule, int value) {
  for (const ConfigChoice& choice : rule.choices) {
    if (choice.value == value) return std::string(choice.name);
  }
  return "value " + number_text(value);
}

std::string config_help(const ConfigRule& rule) {
  std::string help(rule.help);
  for (std::size_t i = 0; i < rule.choices.size(); ++i) {
    help += (i == 0 ? ": " : i + 1 == rule.choices.size() ? " or " : ", ") + std::string(rule.choices[i].name);
  }
  return help;
}

std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& names) {
  std::string_view nearest;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const std::string_view other : names) {
    const std::size_t distance = edit_distance(name, other);
    if (distance < least) {
      least = distance;
      nearest = other;
    }
  }
  return nearest;
}

void check_device(std::string_view where, const std::string& device) {
  try {
    Device::parse(device);
  } catch (const Error& error) {
    fail(where, ": device is \"", device, "\", which cannot be used: ", error.what());
  }
}

}  // namespace headway::inline v0::internal
