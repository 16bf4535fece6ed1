// JSON as a tree of values, or as events where no tree is needed. Files may be untrusted: size and depth have limits,
// and nothing recurses deeper than they allow.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace headway::inline v0::internal {

struct JsonField;

// The fields of an object in their order, found by a hash of their names.
class JsonObject {
 public:
  // Defined where JsonField, which holds an object, is complete.
  JsonObject();
  ~JsonObject();
  JsonObject(const JsonObject& other);
  JsonObject(JsonObject&& other) noexcept;
  JsonObject& operator=(const JsonObject& other);
  JsonObject& operator=(JsonObject&& other) noexcept;

  const std::vector<JsonField>& fields() const { return fields_; }
  const JsonField* find(std::string_view name) const;
  JsonField* find(std::string_view name);
  // Adds a field, which must not exist yet.
  void add(JsonField field);

 private:
  // The slot of a name in `slots_`, or the empty slot for it.
  std::size_t slot_of(std::string_view name) const;

  std::vector<JsonField> fields_;
  std::vector<std::uint32_t> slots_;  // a power of two, at most half full: 1 + the field's number; 0: empty
};

class Json {
 public:
  Json() = default;  // null
  Json(std::nullptr_t) {}
  template <std::same_as<bool> Boolean>
  Json(Boolean value) : value_(value) {}
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) Json(Integer value) {
    if (std::in_range<std::int64_t>(value)) {
      value_ = static_cast<std::int64_t>(value);
    } else {
      value_ = static_cast<std::uint64_t>(value);
    }
  }
  Json(double value) : value_(value) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(std::vector<Json> items);
  Json(std::initializer_list<JsonField> fields);  // an object

  static Json array() { return Json(std::vector<Json>()); }
  static Json object();

  bool is_null() const { return holds<std::monostate>(); }
  bool is_boolean() const { return holds<bool>(); }
  bool is_integer() const { return holds<std::int64_t>() || holds<std::uint64_t>(); }
  bool is_number() const { return is_integer() || holds<double>(); }
  bool is_string() const { return holds<std::string>(); }
  bool is_array() const { return holds<std::vector<Json>>(); }
  bool is_object() const { return holds<JsonObject>(); }
  // "null", "boolean", "number", "string", "array" or "object".
  const char* kind_name() const;

  // The value; each throws an Error where it is of another kind.
  bool boolean() const;
  double number() const;
  const std::string& string() const;
  const std::vector<Json>& items() const;        // of an array
  const std::vector<JsonField>& fields() const;  // of an object
  const Json& at(std::string_view name) const;   // an object's field, which must exist
  std::int64_t int64() const;                    // an integer that fits
  std::uint64_t uint64() const;                  // an integer that fits
  // Whether the value is an integer that fits.
  bool is_int64() const { return holds<std::int64_t>(); }
  bool is_uint64() const { return holds<std::uint64_t>() || (is_int64() && int64() >= 0); }
  // An object's field; null where it is missing or this is not an object.
  const Json* find(std::string_view name) const;

  // Sets an object's field; an existing field keeps its position.
  void set(std::string_view name, Json value);
  // Adds to an array.
  void push_back(Json value);

  // As JSON, on one line without spaces or, from 0 up, with `indent` more spaces on the lines of each level. Numbers
  // read back as the same bits; what is not finite becomes null, and what is not UTF-8 U+FFFD.
  std::string text(int indent = -1) const;

 private:
  template <typename Type>
  bool holds() const {
    return std::holds_alternative<Type>(value_);
  }
  template <typename Type>
  const Type& get(const char* expected) const;
  void append_text(std::string& text, int indent, int depth) const;

  // Integers are std::int64_t, and std::uint64_t only where they do not fit.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, std::vector<Json>, JsonObject>
      value_;
};

struct JsonField {
  std::string name;
  Json value;
};

struct JsonLimits {
  std::size_t bytes = std::size_t{64} << 20;  // of the text
  int depth = 64;                             // of arrays and objects inside each other
  bool comments = false;                      // allows // and /* */
};

// The value of a whole text. A name that occurs twice in an object is refused, since one of its values would be lost.
// Errors begin with `where` and name the line or the byte.
Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits = {});

// The value in a regular file; Errors begin with its path.
Json read_json(const std::filesystem::path& file, const JsonLimits& limits = {});

// Receives a text piece by piece; any of these may throw.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void negative(std::int64_t value) = 0;
  virtual void integer(std::uint64_t value) = 0;
  virtual void number(double value, std::string_view text) = 0;
  virtual void string(std::string&& value) = 0;
  virtual void key(std::string&& name) = 0;
  virtual void start_object() = 0;
  virtual void end_object() = 0;
  virtual void start_array() = 0;
  virtual void end_array() = 0;
  // The text is not JSON at this byte, counted from 1, or passes a limit there; must throw.
  [[noreturn]] virtual void invalid(std::size_t byte, std::string_view reason) = 0;
};
// Checks size and depth, and keeps one bit for each open array or object; the events limit whatever else is kept.
void scan_json(std::string_view text, JsonEvents& events, const JsonLimits& limits = {});

}  // namespace headway::inline v0::internal
