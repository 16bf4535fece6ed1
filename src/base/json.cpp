#include "base/json.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/files.h"
#include "base/json_text.h"
#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

// The bytes of a text as the parser takes them. The parser says where it is only when the text is not JSON, so the end
// of what was taken is kept for messages about the depth.
struct CountedBytes {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  const char* at = nullptr;
  const char** reached = nullptr;

  reference operator*() const { return *at; }
  CountedBytes& operator++() {
    *reached = ++at;
    return *this;
  }
  CountedBytes operator++(int) {
    const CountedBytes before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountedBytes& other) const { return at == other.at; }
};

// Forwards the parser's events and limits the depth.
class Forwarding : public nlohmann::json_sax<nlohmann::json> {
 public:
  Forwarding(std::string_view text, JsonEvents& events, int deepest)
      : begin_(text.data()), reached_(begin_), events_(events), deepest_(deepest) {}

  CountedBytes bytes_at(const char* place) { return {place, &reached_}; }

  bool null() override { return events_.null(), true; }
  bool boolean(bool value) override { return events_.boolean(value), true; }
  bool number_integer(number_integer_t value) override { return events_.negative(value), true; }
  bool number_unsigned(number_unsigned_t value) override { return events_.integer(value), true; }
  bool number_float(number_float_t value, const string_t& text) override { return events_.number(value, text), true; }
  bool string(string_t& value) override { return events_.string(std::move(value)), true; }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool key(string_t& name) override { return events_.key(std::move(name)), true; }
  bool start_object(std::size_t) override { return enter(), events_.start_object(), true; }
  bool end_object() override { return --depth_, events_.end_object(), true; }
  bool start_array(std::size_t) override { return enter(), events_.start_array(), true; }
  bool end_array() override { return --depth_, events_.end_array(), true; }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    std::string_view reason = error.what();
    if (const std::size_t tag = reason.find("] "); reason.starts_with('[') && tag != std::string_view::npos) {
      reason.remove_prefix(tag + 2);  // the exception's number
    }
    events_.invalid(position, reason);
    return false;
  }

 private:
  void enter() {
    if (++depth_ <= deepest_) return;
    const auto byte = static_cast<std::size_t>(reached_ - begin_);
    events_.invalid(byte, "arrays and objects are nested deeper than " + std::to_string(deepest_));
  }

  const char* begin_;
  const char* reached_;  // the end of what the parser has taken
  JsonEvents& events_;
  int deepest_;
  int depth_ = 0;
};

constexpr std::size_t kLongestReason = 200;

// Builds a tree.
class TreeBuilder : public JsonEvents {
 public:
  explicit TreeBuilder(std::string_view where) : where_(where) {}

  Json take() { return std::move(root_); }

  void null() override { put({}); }
  void boolean(bool value) override { put(value); }
  void negative(std::int64_t value) override { put(value); }
  void integer(std::uint64_t value) override { put(value); }
  void number(double value, std::string_view) override { put(value); }
  void string(std::string&& value) override { put(std::move(value)); }
  void key(std::string&& name) override {
    check(open_.back().value.find(name) == nullptr, where_, ": has \"", shortened(name, kLongestReason), "\" twice");
    open_.back().key = std::move(name);
  }
  void start_object() override { open(Json::object()); }
  void end_object() override { close(); }
  void start_array() override { open(Json::array()); }
  void end_array() override { close(); }
  void invalid(std::size_t byte, std::string_view reason) override {
    fail(where_, ": is not JSON at byte ", byte, ": ", shortened(reason, kLongestReason));
  }

 private:
  struct Open {
    Json value;
    std::string key = {};  // of the field that comes next
  };

  void open(Json value) { open_.push_back({std::move(value)}); }
  void close() {
    Json value = std::move(open_.back().value);
    open_.pop_back();
    put(std::move(value));
  }
  void put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (open_.back().value.is_array()) {
      open_.back().value.push_back(std::move(value));
    } else {
      open_.back().value.set(open_.back().key, std::move(value));
    }
  }

  std::string_view where_;
  std::vector<Open> open_;  // arrays and objects, the outermost first
  Json root_;
};

void append_line(std::string& text, int indent, int depth) {
  if (indent < 0) return;
  text += '\n';
  text.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(depth), ' ');
}

}  // namespace

JsonObject::JsonObject() = default;
JsonObject::~JsonObject() = default;
JsonObject::JsonObject(const JsonObject& other) = default;
JsonObject::JsonObject(JsonObject&& other) noexcept = default;
JsonObject& JsonObject::operator=(const JsonObject& other) = default;
JsonObject& JsonObject::operator=(JsonObject&& other) noexcept = default;

std::size_t JsonObject::slot_of(std::string_view name) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = std::hash<std::string_view>()(name) & mask;
  while (slots_[slot] != 0 && fields_[slots_[slot] - 1].name != name) slot = (slot + 1) & mask;
  return slot;
}

const JsonField* JsonObject::find(std::string_view name) const {
  if (slots_.empty()) return nullptr;
  const std::uint32_t found = slots_[slot_of(name)];
  return found == 0 ? nullptr : &fields_[found - 1];
}

JsonField* JsonObject::find(std::string_view name) {
  return const_cast<JsonField*>(std::as_const(*this).find(name));  // of an object that is not const
}

void JsonObject::add(JsonField field) {
  check(fields_.size() < std::numeric_limits<std::uint32_t>::max() / 4, "JSON: an object has too many fields");
  fields_.push_back(std::move(field));
  if (2 * fields_.size() > slots_.size()) {
    slots_.assign(std::max<std::size_t>(8, 2 * slots_.size()), 0);
    for (std::uint32_t i = 0; i + 1 < fields_.size(); ++i) slots_[slot_of(fields_[i].name)] = i + 1;
  }
  slots_[slot_of(fields_.back().name)] = static_cast<std::uint32_t>(fields_.size());
}

Json::Json(std::vector<Json> items) : value_(std::move(items)) {}

Json::Json(std::initializer_list<JsonField> fields) : value_(JsonObject()) {
  for (const JsonField& field : fields) set(field.name, field.value);
}

Json Json::object() {
  Json json;
  json.value_ = JsonObject();
  return json;
}

const char* Json::kind_name() const {
  constexpr const char* kNames[] = {"null", "boolean", "number", "number", "number", "string", "array", "object"};
  return kNames[value_.index()];
}

template <typename Type>
const Type& Json::get(const char* expected) const {
  const Type* value = std::get_if<Type>(&value_);
  check(value != nullptr, "JSON: ", kind_name(), ", expected ", expected);
  return *value;
}

bool Json::boolean() const { return get<bool>("a boolean"); }
const std::string& Json::string() const { return get<std::string>("a string"); }
const std::vector<Json>& Json::items() const { return get<std::vector<Json>>("an array"); }
const std::vector<JsonField>& Json::fields() const { return get<JsonObject>("an object").fields(); }
std::int64_t Json::int64() const { return get<std::int64_t>("an integer of 64 bits"); }

double Json::number() const {
  if (const auto* integer = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*integer);
  if (const auto* large = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*large);
  return get<double>("a number");
}

std::uint64_t Json::uint64() const {
  check(is_uint64(), "JSON: ", kind_name(), ", expected an integer of 64 bits from 0 up");
  return is_int64() ? static_cast<std::uint64_t>(int64()) : std::get<std::uint64_t>(value_);
}

const Json& Json::at(std::string_view name) const {
  const Json* value = find(name);
  check(value != nullptr, "JSON: has no \"", name, "\"");
  return *value;
}

const Json* Json::find(std::string_view name) const {
  const auto* object = std::get_if<JsonObject>(&value_);
  const JsonField* field = object ? object->find(name) : nullptr;
  return field ? &field->value : nullptr;
}

void Json::set(std::string_view name, Json value) {
  auto& object = std::get<JsonObject>(value_);
  if (JsonField* field = object.find(name)) {
    field->value = std::move(value);
  } else {
    object.add({std::string(name), std::move(value)});
  }
}

void Json::push_back(Json value) { std::get<std::vector<Json>>(value_).push_back(std::move(value)); }

std::string Json::text(int indent) const {
  std::string text;
  append_text(text, indent, 0);
  return text;
}

void Json::append_text(std::string& text, int indent, int depth) const {
  if (is_string()) {
    text += json_string(string());
  } else if (is_array() && !items().empty()) {
    char separator = '[';
    for (const Json& item : items()) {
      text += std::exchange(separator, ',');
      append_line(text, indent, depth + 1);
      item.append_text(text, indent, depth + 1);
    }
    append_line(text, indent, depth);
    text += ']';
  } else if (is_object() && !fields().empty()) {
    char separator = '{';
    for (const JsonField& field : fields()) {
      text += std::exchange(separator, ',');
      append_line(text, indent, depth + 1);
      text += json_string(field.name) + (indent < 0 ? ":" : ": ");
      field.value.append_text(text, indent, depth + 1);
    }
    append_line(text, indent, depth);
    text += '}';
  } else if (holds<double>()) {
    text += nlohmann::json(number()).dump();  // always with a point or an exponent, as files have it
  } else if (is_integer()) {
    text += is_int64() ? std::to_string(int64()) : std::to_string(uint64());
  } else {
    text += is_null() ? "null" : is_boolean() ? (boolean() ? "true" : "false") : is_array() ? "[]" : "{}";
  }
}

void scan_json(std::string_view text, JsonEvents& events, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    events.invalid(limits.bytes + 1, "it has " + std::to_string(text.size()) + " bytes, expected at most " +
                                         std::to_string(limits.bytes));
  }
  // The parser treats a zero byte as the end and would ignore what follows.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos)
    events.invalid(zero + 1, "there is a zero byte");
  Forwarding forwarding(text, events, limits.depth);
  nlohmann::json::sax_parse(forwarding.bytes_at(text.data()), forwarding.bytes_at(text.data() + text.size()),
                            &forwarding, nlohmann::json::input_format_t::json, /*strict=*/true, limits.comments);
}

Json parse_json(std::string_view text, std::string_view where, const JsonLimits& limits) {
  check(text.size() <= limits.bytes, where, ": has ", text.size(), " bytes, expected at most ", limits.bytes);
  TreeBuilder builder(where);
  scan_json(text, builder, limits);
  return builder.take();
}

Json read_json(const std::filesystem::path& file, const JsonLimits& limits) {
  return parse_json(read_whole_file(file, {}, {.limit = limits.bytes}), file.string(), limits);
}

}  // namespace headway::inline v0::internal
