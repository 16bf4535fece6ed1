// Fields of JSON objects whose kinds are checked; Errors begin with `about` and name the field.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace headway::inline v0::internal {

// The field, or null where it is missing or null.
const Json* field_of(const Json& json, std::string_view name);
// Without a usual value the field must exist.
std::string string_field(const Json& json, std::string_view name, const std::string& about,
                         std::optional<std::string> usual = {});
bool flag_field(const Json& json, std::string_view name, const std::string& about, std::optional<bool> usual = {});
std::int64_t count_field(const Json& json, std::string_view name, const std::string& about,
                         std::optional<std::int64_t> usual = {});
// A string of one character.
char32_t character_field(const Json& json, std::string_view name, const std::string& about);
const std::vector<Json>& array_field(const Json& json, std::string_view name, const std::string& about);
// The "type" of a component, which must be an object.
std::string type_of(const Json& json, const std::string& about);

// An id of a token: from 0, below the limit that keeps a file from asking for any amount of memory.
inline constexpr std::int64_t kMostTokens = std::int64_t{1} << 22;
std::uint32_t token_id_of(const Json& json, const std::string& about);

}  // namespace headway::inline v0::internal
