// The model directories of examples whose layers are their own: config.json holds whole numbers by name, the weights
// are in model.safetensors.
#pragma once

#include <headway/headway.h>

#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/files.h"

namespace example {

// {"name": number, ...}, checked as it is read.
class FlatConfig {
 public:
  explicit FlatConfig(const std::filesystem::path& file) : file_(file.string()) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) fail("cannot be read");
    text_.assign(std::istreambuf_iterator<char>(stream), {});
    expect_character('{');
    do {
      const std::string name = quoted();
      expect_character(':');
      numbers_[name] = whole_number(name);
    } while (next_is(','));
    expect_character('}');
    if (peek() != '\0') fail("has more text after the last }");
  }

  std::int64_t between(const std::string& name, std::int64_t least, std::int64_t most) const {
    const auto found = numbers_.find(name);
    if (found == numbers_.end()) fail("\"" + name + "\" is missing");
    if (found->second < least || found->second > most) {
      fail("\"" + name + "\" is " + std::to_string(found->second) + ", expected " + std::to_string(least) + " to " +
           std::to_string(most));
    }
    return found->second;
  }
  void expect(const std::string& name, std::int64_t value) const { between(name, value, value); }
  void check_divides(const std::string& name, std::int64_t whole) const {
    const std::int64_t part = between(name, 1, whole);
    if (whole % part != 0) {
      fail("\"" + name + "\" is " + std::to_string(part) + ", which does not divide " + std::to_string(whole));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw headway::Error(file_ + ": " + what); }

  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool next_is(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect_character(char c) {
    if (!next_is(c)) {
      fail("expected " + std::string(1, c) + " at byte " + std::to_string(at_) +
           ", in an object of names and whole numbers");
    }
  }
  std::string quoted() {
    expect_character('"');
    const std::size_t end = text_.find('"', at_);
    if (end == std::string::npos) fail("a name has no closing quotation mark");
    const std::string name = text_.substr(at_, end - at_);
    at_ = end + 1;
    return name;
  }
  std::int64_t whole_number(const std::string& name) {
    std::string digits;
    peek();
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) digits += text_[at_++];
    if (digits.empty() || digits.size() > 9) fail("\"" + name + "\" is not a whole number");
    return std::stoll(digits);
  }

  std::string file_;
  std::string text_;
  std::size_t at_ = 0;
  std::map<std::string, std::int64_t> numbers_;
};

inline void write_flat_config(const std::filesystem::path& file,
                              const std::vector<std::pair<std::string, std::int64_t>>& numbers) {
  std::string text = "{";
  for (const auto& [name, number] : numbers) {
    text += (text == "{" ? "\n  \"" : ",\n  \"") + name + "\": " + std::to_string(number);
  }
  write_text(file, text + "\n}\n");
}

// Copies the weights of a file into a model; an error names the file.
inline void load_weights(const headway::Module& model, const std::filesystem::path& file) {
  const headway::StateDict values = headway::load_safetensors(file);
  try {
    model.load_state_dict(values);
  } catch (const headway::Error& error) {
    throw headway::Error(file.string() + ": " + error.what());
  }
  model.eval();
}

// Writes them as float16.
inline void save_weights(const headway::Module& model, const std::filesystem::path& file) {
  headway::StateDict tensors;
  for (const auto& [name, tensor] : model.state_dict()) tensors.emplace(name, tensor.to(headway::DType::float16));
  headway::save_safetensors(file, tensors, {{"format", "pt"}});
}

}  // namespace example
