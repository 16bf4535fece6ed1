// Where a tensor's memory lives.
#pragma once

namespace headway {
inline namespace v0 {

struct Device {
  enum class Kind { cpu };
  Kind kind = Kind::cpu;
  int index = 0;

  static constexpr Device cpu() { return {}; }
  friend constexpr bool operator==(const Device&, const Device&) = default;
};

}  // namespace v0
}  // namespace headway
