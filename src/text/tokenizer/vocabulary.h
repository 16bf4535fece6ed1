// Tokens and their ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

class Vocabulary {
 public:
  void reserve(std::size_t tokens, std::size_t bytes);
  // Gives an id a token. A token that is there already belongs to the new id from now on.
  void add(std::string_view token, std::uint32_t id);

  // The id of a token, or -1.
  std::int64_t find(std::string_view token) const;
  bool has(std::uint32_t id) const { return id < places_.size() && places_[id].used; }
  // The token of an id; empty where it has none.
  std::string_view token(std::uint32_t id) const;
  // One more than the largest id.
  std::uint32_t size() const { return static_cast<std::uint32_t>(places_.size()); }
  // How many different tokens there are.
  std::size_t count() const { return count_; }

 private:
  struct Place {
    std::uint32_t begin = 0;
    std::uint32_t length : 31 = 0;
    std::uint32_t used : 1 = 0;
  };
  std::size_t slot_of(std::string_view token) const;
  void grow(std::size_t slots);

  std::string bytes_;
  std::vector<Place> places_;         // by id
  std::vector<std::uint32_t> slots_;  // a power of two, at most half full: 1 + the id; 0: empty
  std::size_t count_ = 0;
};

}  // namespace headway::inline v0::internal
