#include "text/tokenizer/json_fields.h"

#include "base/check.h"
#include "base/utf8.h"

namespace headway::inline v0::internal {

const Json* field_of(const Json& json, std::string_view name) {
  const Json* value = json.find(name);
  return value != nullptr && value->is_null() ? nullptr : value;
}

std::string string_field(const Json& json, std::string_view name, const std::string& about,
                         std::optional<std::string> usual) {
  const Json* value = field_of(json, name);
  if (value == nullptr && usual) return *usual;
  check(value != nullptr, about, ": has no \"", name, "\"");
  check(value->is_string(), about, ": ", name, " is ", value->kind_name(), ", expected a string");
  return value->string();
}

bool flag_field(const Json& json, std::string_view name, const std::string& about, std::optional<bool> usual) {
  const Json* value = field_of(json, name);
  if (value == nullptr && usual) return *usual;
  check(value != nullptr, about, ": has no \"", name, "\"");
  check(value->is_boolean(), about, ": ", name, " is ", value->kind_name(), ", expected true or false");
  return value->boolean();
}

std::int64_t count_field(const Json& json, std::string_view name, const std::string& about,
                         std::optional<std::int64_t> usual) {
  const Json* value = field_of(json, name);
  if (value == nullptr && usual) return *usual;
  check(value != nullptr, about, ": has no \"", name, "\"");
  check(value->is_int64() && value->int64() >= 0, about, ": ", name, " is ", shortened(value->text(), 50),
        ", expected a number from 0 up");
  return value->int64();
}

char32_t character_field(const Json& json, std::string_view name, const std::string& about) {
  const std::string text = string_field(json, name, about);
  std::string_view rest = text;
  const bool one = !rest.empty();
  const char32_t character = one ? next_character(rest) : 0;
  check(one && rest.empty(), about, ": ", name, " is \"", shortened(text, 50), "\", expected one character");
  return character;
}

const std::vector<Json>& array_field(const Json& json, std::string_view name, const std::string& about) {
  const Json* value = field_of(json, name);
  check(value != nullptr && value->is_array(), about, ": ", name, " is ", value ? value->kind_name() : "missing",
        ", expected an array");
  return value->items();
}

std::string type_of(const Json& json, const std::string& about) {
  check(json.is_object(), about, " is ", json.kind_name(), ", expected an object");
  return string_field(json, "type", about);
}

std::uint32_t token_id_of(const Json& json, const std::string& about) {
  check(json.is_int64() && json.int64() >= 0 && json.int64() < kMostTokens, about, ": an id is ",
        shortened(json.text(), 50), ", expected a number from 0 to ", kMostTokens - 1);
  return static_cast<std::uint32_t>(json.int64());
}

}  // namespace headway::inline v0::internal
