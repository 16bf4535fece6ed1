// Failures of a test that looks at many problems: the first ones in full, then their number.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace headway_test {

class Messages {
 public:
  static constexpr int kShown = 20;

  void add(const std::string& message) {
    if (++count_ <= kShown) ADD_FAILURE() << message;
  }
  void expect(const testing::AssertionResult& result, const std::string& where) {
    if (!result) add(where + ": " + result.message());
  }
  // Runs the body; what it throws is a failure of that place.
  template <typename Body>
  void guarded(const std::string& where, const Body& body) {
    try {
      body();
    } catch (const std::exception& error) {
      add(where + ": threw \"" + error.what() + "\"");
    }
  }
  int count() const { return count_; }

  Messages() = default;
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  ~Messages() {
    if (count_ > kShown) ADD_FAILURE() << "and " << count_ - kShown << " more failures";
  }

 private:
  int count_ = 0;
};

}  // namespace headway_test
