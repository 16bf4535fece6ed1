// XXH64 (Yann Collet): four lanes of 64 bits, so that a long input is read at the speed of memory.
#include "base/checksum.h"

#include <array>
#include <bit>
#include <cstdio>
#include <cstring>

namespace headway::inline v0::internal {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5;
constexpr std::size_t kLanes = 4;
constexpr std::size_t kStripe = kLanes * sizeof(std::uint64_t);

static_assert(std::endian::native == std::endian::little, "the lanes are little-endian");

template <typename Number>
Number take(std::string_view& bytes) {
  Number number;
  std::memcpy(&number, bytes.data(), sizeof(number));
  bytes.remove_prefix(sizeof(number));
  return number;
}

std::uint64_t round_of(std::uint64_t lane, std::uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

// Takes all whole stripes off the bytes. The lanes are kept in registers.
std::uint64_t hash_stripes(std::string_view& bytes) {
  std::array<std::uint64_t, kLanes> lanes = {kPrime1 + kPrime2, kPrime2, 0, std::uint64_t{0} - kPrime1};
  const char* from = bytes.data();
  const char* const end = from + bytes.size() / kStripe * kStripe;
  for (; from != end; from += kStripe) {
    std::array<std::uint64_t, kLanes> input;
    std::memcpy(input.data(), from, kStripe);
    lanes[0] = round_of(lanes[0], input[0]);
    lanes[1] = round_of(lanes[1], input[1]);
    lanes[2] = round_of(lanes[2], input[2]);
    lanes[3] = round_of(lanes[3], input[3]);
  }
  bytes.remove_prefix(static_cast<std::size_t>(from - bytes.data()));
  std::uint64_t hash =
      std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
  for (const std::uint64_t lane : lanes) hash = (hash ^ round_of(0, lane)) * kPrime1 + kPrime4;
  return hash;
}

}  // namespace

std::uint64_t xxh64(std::string_view bytes) {
  const std::uint64_t size = bytes.size();
  std::uint64_t hash = kPrime5;
  if (bytes.size() >= kStripe) {
    hash = hash_stripes(bytes);
  }
  hash += size;
  while (bytes.size() >= 8) hash = std::rotl(hash ^ round_of(0, take<std::uint64_t>(bytes)), 27) * kPrime1 + kPrime4;
  if (bytes.size() >= 4) hash = std::rotl(hash ^ take<std::uint32_t>(bytes) * kPrime1, 23) * kPrime2 + kPrime3;
  while (!bytes.empty()) hash = std::rotl(hash ^ take<std::uint8_t>(bytes) * kPrime5, 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

std::string xxh64_text(std::string_view bytes) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(xxh64(bytes)));
  return digits;
}

}  // namespace headway::inline v0::internal
