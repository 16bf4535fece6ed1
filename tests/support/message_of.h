// What a call complained about.
#pragma once

#include <functional>
#include <string>

#include "headway/error.h"

namespace headway_test {

// The message of the headway::Error that a call throws, or "no error".
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const headway::Error& error) {
    return error.what();
  }
  return "no error";
}

// Whether a text has the given part, for EXPECT_PRED2.
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace headway_test
