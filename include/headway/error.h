// The one exception type that Headway throws.
#pragma once

#include <stdexcept>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

// Thrown for every invalid argument; the message names the argument, its value and what was expected.
class HEADWAY_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace v0
}  // namespace headway
