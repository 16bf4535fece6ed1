#include "models/model_config.h"

#include <array>
#include <cmath>
#include <utility>

#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

// The first name of an activation is the one that is written.
constexpr std::array<std::pair<const char*, Activation>, 14> kActivations = {{
    {"relu", Activation::relu},
    {"gelu", Activation::gelu},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"gelu_python", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_python_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_accurate", Activation::gelu_tanh},
    {"tanh", Activation::tanh},
    {"sigmoid", Activation::sigmoid},
    {"quick_gelu", Activation::quick_gelu},
    {"linear", Activation::none},
}};

}  // namespace

std::optional<Activation> activation_of(std::string_view name) {
  for (const auto& [known, activation] : kActivations) {
    if (name == known) return activation;
  }
  return std::nullopt;
}

const char* activation_name(Activation activation) {
  for (const auto& [name, known] : kActivations) {
    if (known == activation) return name;
  }
  fail("the activation has no name in a config.json");
}

std::string activation_names() {
  std::string names;
  for (const auto& [name, activation] : kActivations) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

ModelConfig::ModelConfig(std::string name, Json fields) : name_(std::move(name)), fields_(std::move(fields)) {
  check(fields_.is_object(), name_, ": is not a JSON object");
}

ModelConfig ModelConfig::read(const std::filesystem::path& file) { return {file.string(), read_json(file)}; }

ModelConfig ModelConfig::parse(const std::string& text, const std::string& name) {
  return {name, parse_json(text, name)};
}

const Json* ModelConfig::find(const char* field) const {
  const Json* found = fields_.find(field);
  return found == nullptr || found->is_null() ? nullptr : found;
}

void ModelConfig::alias(const char* field, const char* other) {
  if (!has(field) && has(other)) fields_.set(field, fields_.at(other));
}

ModelConfig ModelConfig::nested(const char* field) const {
  const Json* value = find(field);
  if (!value) return {name_ + ": " + field, Json::object()};
  if (!value->is_object()) refuse(field, "an object");
  return {name_ + ": " + field, *value};
}

std::string ModelConfig::shown(const char* field) const {
  constexpr std::size_t kMost = 60;
  const Json* value = fields_.find(field);
  return value ? shortened(value->text(), kMost) : std::string("not there");
}

void ModelConfig::refuse(const char* field, const std::string& expected) const {
  fail(name_, ": ", field, " is ", shown(field), ", expected ", expected);
}

std::int64_t ModelConfig::integer_of(const char* field, const Json& value) const {
  if (value.is_int64()) return value.int64();
  // Some files have 4096.0 for 4096.
  const double number = value.is_number() ? value.number() : 0.5;
  if (number != std::floor(number) || std::abs(number) > 1e15) refuse(field, "an integer");
  return static_cast<std::int64_t>(number);
}

std::int64_t ModelConfig::integer(const char* field) const {
  const Json* value = find(field);
  check(value != nullptr, name_, ": ", field, " is not there");
  return integer_of(field, *value);
}

std::int64_t ModelConfig::integer(const char* field, std::int64_t otherwise) const {
  const Json* value = find(field);
  return value ? integer_of(field, *value) : otherwise;
}

std::optional<std::int64_t> ModelConfig::maybe_integer(const char* field) const {
  const Json* value = find(field);
  if (!value) return std::nullopt;
  return integer_of(field, *value);
}

std::int64_t ModelConfig::size(const char* field, std::int64_t otherwise, std::int64_t least, std::int64_t most) const {
  const std::int64_t value = integer(field, otherwise);
  check(value >= least && value <= most, name_, ": ", field, " is ", value, ", expected ", least, " to ", most);
  return value;
}

std::int64_t ModelConfig::heads(const char* field, std::int64_t otherwise, std::int64_t width,
                                const char* width_field) const {
  const std::int64_t value = size(field, otherwise);
  check(width % value == 0, name_, ": ", field, " is ", value, ", which does not divide ", width_field, ", ", width);
  return value;
}

std::optional<std::int64_t> ModelConfig::token(const char* field, std::optional<std::int64_t> otherwise,
                                               std::int64_t vocab_size) const {
  const std::vector<std::int64_t> ids = tokens(field, otherwise, vocab_size);
  if (ids.empty()) return std::nullopt;
  return ids.front();
}

std::vector<std::int64_t> ModelConfig::tokens(const char* field, std::optional<std::int64_t> otherwise,
                                              std::int64_t vocab_size) const {
  std::vector<std::int64_t> ids;
  const auto add = [&](std::int64_t id) {
    if (id >= 0 && id < vocab_size) ids.push_back(id);
  };
  const Json* value = find(field);
  if (value && value->is_array()) {
    for (const Json& item : value->items()) add(integer_of(field, item));
  } else if (value) {
    add(integer_of(field, *value));
  } else if (!has(field) && otherwise) {
    add(*otherwise);
  }
  return ids;
}

double ModelConfig::number(const char* field, double otherwise) const {
  return maybe_number(field).value_or(otherwise);
}

std::optional<double> ModelConfig::maybe_number(const char* field) const {
  const Json* value = find(field);
  if (!value) return std::nullopt;
  if (!value->is_number()) refuse(field, "a number");
  return value->number();
}

double ModelConfig::positive(const char* field, double otherwise) const {
  const double value = number(field, otherwise);
  if (!(value > 0)) refuse(field, "a number above 0");
  return value;
}

double ModelConfig::probability(const char* field, double otherwise) const {
  const double value = number(field, otherwise);
  if (!(value >= 0 && value < 1)) refuse(field, "0 or more and less than 1");
  return value;
}

std::vector<double> ModelConfig::numbers(const char* field) const {
  std::vector<double> values;
  const Json* value = find(field);
  if (!value) return values;
  if (!value->is_array()) refuse(field, "a list of numbers");
  for (const Json& item : value->items()) {
    if (!item.is_number()) refuse(field, "a list of numbers");
    values.push_back(item.number());
  }
  return values;
}

bool ModelConfig::boolean(const char* field, bool otherwise) const {
  const Json* value = find(field);
  if (!value) return otherwise;
  if (!value->is_boolean()) refuse(field, "true or false");
  return value->boolean();
}

std::string ModelConfig::string(const char* field, const std::string& otherwise) const {
  const Json* value = find(field);
  if (!value) return otherwise;
  if (!value->is_string()) refuse(field, "a string");
  return value->string();
}

std::vector<std::string> ModelConfig::strings(const char* field) const {
  std::vector<std::string> values;
  const Json* value = find(field);
  if (!value) return values;
  if (!value->is_array()) refuse(field, "a list of strings");
  for (const Json& item : value->items()) {
    if (!item.is_string()) refuse(field, "a list of strings");
    values.push_back(item.string());
  }
  return values;
}

Activation ModelConfig::activation(const char* field, const char* otherwise) const {
  const std::optional<Activation> found = activation_of(string(field, otherwise));
  if (!found) refuse(field, "one of " + activation_names());
  return *found;
}

void ModelConfig::require(const char* field, bool expected) const {
  const bool value = boolean(field, expected);
  check(value == expected, name_, ": ", field, " is ", value, ", and only ", expected, " is supported");
}

}  // namespace headway::inline v0::internal
