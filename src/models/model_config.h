// The fields of a config.json, with messages that name the file, the field, what came and what was expected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "headway/activation.h"

namespace headway::inline v0::internal {

// The activation of a name in a config.json; nothing where it is unknown. "gelu_new" and others name one function.
std::optional<Activation> activation_of(std::string_view name);
// The name that is written, and the names that are known, for messages.
const char* activation_name(Activation activation);
std::string activation_names();

class ModelConfig {
 public:
  // More than any model has; beyond it, sizes of tensors could overflow before any other check fails.
  static constexpr std::int64_t kMostSize = std::int64_t{1} << 24;
  static constexpr std::int64_t kMostLayers = 1000;

  // `name` begins the messages, as a path does.
  ModelConfig(std::string name, Json fields);
  static ModelConfig read(const std::filesystem::path& file);
  static ModelConfig parse(const std::string& text, const std::string& name);

  // A field, or null where it is missing or null.
  const Json* find(const char* field) const;
  // Whether the field is there, be it null.
  bool has(const char* field) const { return fields_.find(field) != nullptr; }
  // The field under another name, where it is not there under its own.
  void alias(const char* field, const char* other);
  // The object in a field; an empty one where it is missing.
  ModelConfig nested(const char* field) const;

  std::int64_t integer(const char* field) const;
  std::int64_t integer(const char* field, std::int64_t otherwise) const;
  std::optional<std::int64_t> maybe_integer(const char* field) const;
  // An integer from `least` to `most`.
  std::int64_t size(const char* field, std::int64_t otherwise, std::int64_t least = 1,
                    std::int64_t most = kMostSize) const;
  std::int64_t layers(const char* field, std::int64_t otherwise) const {
    return size(field, otherwise, 0, kMostLayers);
  }
  // Heads of that width: a number that divides it.
  std::int64_t heads(const char* field, std::int64_t otherwise, std::int64_t width, const char* width_field) const;
  // One token id, or none where the field is null or outside of the vocabulary, which transformers lets pass too.
  std::optional<std::int64_t> token(const char* field, std::optional<std::int64_t> otherwise,
                                    std::int64_t vocab_size) const;
  // One id or a list of them.
  std::vector<std::int64_t> tokens(const char* field, std::optional<std::int64_t> otherwise,
                                   std::int64_t vocab_size) const;

  double number(const char* field, double otherwise) const;
  std::optional<double> maybe_number(const char* field) const;
  // A number above zero.
  double positive(const char* field, double otherwise) const;
  double probability(const char* field, double otherwise) const;
  std::vector<double> numbers(const char* field) const;

  bool boolean(const char* field, bool otherwise) const;
  std::string string(const char* field, const std::string& otherwise) const;
  std::vector<std::string> strings(const char* field) const;
  Activation activation(const char* field, const char* otherwise) const;

  // Refuses a model of another kind.
  void require(const char* field, bool expected) const;
  [[noreturn]] void refuse(const char* field, const std::string& expected) const;

  const std::string& name() const { return name_; }
  const Json& fields() const { return fields_; }

 private:
  std::string shown(const char* field) const;
  std::int64_t integer_of(const char* field, const Json& value) const;

  std::string name_;
  Json fields_;
};

}  // namespace headway::inline v0::internal
