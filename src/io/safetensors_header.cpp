// Reads and writes the JSON header. Files may be untrusted: nothing in them is used before it is checked.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <ostream>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "base/checksum.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "io/safetensors.h"

namespace headway::inline v0::internal {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and tensors are used in place");

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kLongestReason = 200;  // in a message
constexpr const char* kMetadata = "__metadata__";

// Every dtype of the format, with the bits of one element.
struct FileDType {
  std::string_view name;
  int bits;
};
constexpr std::array<FileDType, 22> kFileDTypes = {{
    {"F32", 32},    {"F64", 64},    {"BF16", 16},       {"F16", 16},        {"I32", 32}, {"I64", 64},
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},          {"U16", 16},        {"I16", 16}, {"U32", 32},
    {"U64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8},     {"F8_E8M0", 8},     {"F4", 4},   {"F6_E2M3", 6},
    {"F6_E3M2", 6}, {"C64", 64},    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
}};

// Receives the events of the JSON parser. The format fixes the depth, so an enum of places replaces a stack.
class HeaderReader : public JsonEvents {
 public:
  explicit HeaderReader(std::string_view path) : path_(path) {}

  std::vector<SafeTensorsEntry>& entries() { return entries_; }
  std::map<std::string, std::string>& metadata() { return metadata_; }

  void null() override { refuse("null"); }
  void boolean(bool) override { refuse("a boolean"); }
  void negative(std::int64_t) override { refuse("a number with a minus sign"); }
  void number(double, std::string_view text) override { refuse("the number " + shortened(text, kLongestReason)); }

  void integer(std::uint64_t value) override {
    if (place_ == Place::shape) {
      check(value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()), where(), "has the size ",
            value, " in its shape, which 63 bits cannot hold");
      check(entry_.shape.rank() < Shape::kMaxRank, where(), "has more than the ", Shape::kMaxRank,
            " dimensions that a tensor may have");
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (place_ == Place::offsets && offset_count_ < 2) {
      (offset_count_++ == 0 ? entry_.begin : entry_.end) = value;
    } else {
      refuse("the number " + std::to_string(value));
    }
  }

  void string(std::string&& value) override {
    if (place_ == Place::metadata) {
      metadata_[key_] = std::move(value);
    } else if (place_ == Place::tensor && key_ == "dtype") {
      entry_.dtype = std::move(value);
    } else {
      refuse("the string " + in_quotes(value));
    }
  }

  void key(std::string&& name) override {
    key_ = std::move(name);
    if (place_ == Place::root) {
      if (!names_.insert(key_).second) {
        fail("safetensors: ", path_, ": the name ", in_quotes(key_), " occurs twice");
      }
    } else if (place_ == Place::metadata) {
      if (metadata_.contains(key_)) {
        fail("safetensors: ", path_, ": the metadata key ", in_quotes(key_), " occurs twice");
      }
    } else {
      const auto field = std::find(kFields.begin(), kFields.end(), key_);
      if (field == kFields.end()) {
        fail(where(), "has the field ", in_quotes(key_), ", expected dtype, shape and data_offsets alone");
      }
      bool& seen = seen_[static_cast<std::size_t>(field - kFields.begin())];
      check(!seen, where(), "has the field ", key_, " twice");
      seen = true;
    }
  }

  void start_object() override {
    if (place_ == Place::outside) {
      place_ = Place::root;
    } else if (place_ == Place::root && key_ == kMetadata) {
      place_ = Place::metadata;
    } else if (place_ == Place::root) {
      place_ = Place::tensor;
      entry_ = {};
      entry_.name = key_;
      seen_ = {};
    } else {
      refuse("an object");
    }
  }

  void end_object() override {
    if (place_ == Place::tensor) {
      for (std::size_t i = 0; i < kFields.size(); ++i) {
        check(seen_[i], where(), "has no ", kFields[i]);
      }
      entries_.push_back(std::move(entry_));
    }
    place_ = place_ == Place::root ? Place::outside : Place::root;
  }

  void start_array() override {
    if (place_ != Place::tensor || key_ == "dtype") {
      refuse("an array");
    }
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    offset_count_ = 0;
  }

  void end_array() override {
    check(place_ == Place::shape || offset_count_ == 2, where(), "has ", offset_count_,
          " data_offsets, expected 2: begin and end");
    place_ = Place::tensor;
  }

  void invalid(std::size_t byte, std::string_view reason) override {
    fail("safetensors: ", path_, ": the header is not valid JSON at its byte ", byte, ": ",
         shortened(reason, kLongestReason));
  }

 private:
  enum class Place { outside, root, metadata, tensor, shape, offsets };
  static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

  // How an error about the tensor at hand begins.
  AboutTensor where() const { return {path_, entry_.name}; }

  [[noreturn]] void refuse(const std::string& what) const {
    switch (place_) {
      case Place::outside:
        fail("safetensors: ", path_, ": the header is ", what, ", expected an object");
      case Place::root:
        fail("safetensors: ", path_, ": under ", in_quotes(key_), " stands ", what, ", expected an object");
      case Place::metadata:
        fail("safetensors: ", path_, ": under the metadata key ", in_quotes(key_), " stands ", what,
             ", expected a string");
      case Place::tensor:
        fail(where(), "has ", what, " as its ", key_, ", expected ", key_ == "dtype" ? "a string" : "an array");
      case Place::shape:
        fail(where(), "has ", what, " in its shape, expected integers from 0 up");
      case Place::offsets:
        fail(where(), "has ", what, " in its data_offsets, expected two integers from 0 up");
    }
    fail(where(), "has ", what);
  }

  std::string_view path_;
  Place place_ = Place::outside;
  std::string key_;  // the last one that was read
  std::unordered_set<std::string> names_;
  SafeTensorsEntry entry_;
  std::array<bool, kFields.size()> seen_ = {};
  int offset_count_ = 0;
  std::vector<SafeTensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
};

// The JSON text, its length checked against the file.
std::string_view header_text(std::span<const std::byte> file, std::string_view path) {
  check(file.size() >= kLengthBytes, "safetensors: ", path, ": the file has ", file.size(),
        " bytes, expected at least the 8 of the header's length");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  check(length <= kMaxSafeTensorsHeader, "safetensors: ", path, ": the header's length is ", length,
        ", expected at most ", kMaxSafeTensorsHeader);
  check(length <= file.size() - kLengthBytes, "safetensors: ", path, ": the header's length is ", length, ", but only ",
        file.size() - kLengthBytes, " bytes follow; the file is truncated or of another format");
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, length);
  check(text.starts_with('{'), "safetensors: ", path, ": the header does not start with {");
  check(text.find('\0') == std::string_view::npos, "safetensors: ", path, ": the header has a zero byte");
  return text;
}

// The bytes that a tensor's dtype and shape ask for.
std::uint64_t byte_count(const SafeTensorsEntry& entry, std::string_view path) {
  const auto dtype = std::find_if(kFileDTypes.begin(), kFileDTypes.end(),
                                  [&](const FileDType& candidate) { return candidate.name == entry.dtype; });
  if (dtype == kFileDTypes.end()) {
    fail(AboutTensor{path, entry.name}, "has the dtype ", in_quotes(entry.dtype), ", which the format does not know");
  }
  std::int64_t bits = dtype->bits;
  bool empty = false;
  for (const std::int64_t size : entry.shape) {
    empty |= size == 0;
    // A zero counts as one, so that the strides of an empty tensor fit into 64 bits too.
    check(!__builtin_mul_overflow(bits, size == 0 ? 1 : size, &bits), AboutTensor{path, entry.name}, "has the shape ",
          entry.shape, ", which has more bits than 64 bits can count");
  }
  if (empty) {
    return 0;
  }
  check(bits % 8 == 0, AboutTensor{path, entry.name}, "has ", bits, " bits, expected whole bytes");
  return static_cast<std::uint64_t>(bits) / 8;
}

void check_entry(const SafeTensorsEntry& entry, std::uint64_t data_size, std::string_view path) {
  check(entry.begin <= entry.end, AboutTensor{path, entry.name}, "begins at byte ", entry.begin, ", after its end at ",
        entry.end);
  check(entry.end <= data_size, AboutTensor{path, entry.name}, "ends at byte ", entry.end,
        " of the data, which has only ", data_size, "; the file is truncated or damaged");
  const std::uint64_t wanted = byte_count(entry, path);
  check(entry.end - entry.begin == wanted, AboutTensor{path, entry.name}, "has ", entry.end - entry.begin,
        " bytes of data, expected ", wanted, " for ", entry.dtype, entry.shape);
}

// The data must be covered by the tensors, which stand in its order, without overlap and without holes.
void check_coverage(const std::vector<SafeTensorsEntry>& entries, std::uint64_t data_size, std::string_view path) {
  std::uint64_t covered = 0;
  for (const SafeTensorsEntry& entry : entries) {
    check(entry.begin >= covered, AboutTensor{path, entry.name}, "begins at byte ", entry.begin,
          " of the data and overlaps another, which ends at ", covered);
    check(entry.begin == covered, AboutTensor{path, entry.name}, "begins at byte ", entry.begin,
          " of the data, and no tensor covers the bytes from ", covered, " up to it");
    covered = entry.end;
  }
  check(covered == data_size, "safetensors: ", path, ": no tensor covers the bytes ", covered, " to ", data_size,
        " at the end of the data");
}

// A string as JSON; throws where it is not UTF-8.
std::string checked_json(const std::string& text, const char* what, std::string_view path) {
  if (!is_utf8(text)) fail("safetensors: ", path, ": the ", what, " ", in_quotes(text), " is not valid UTF-8");
  return json_string(text);
}

}  // namespace

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kLongest = 100;
  return "'" + shortened(name, kLongest) + "'";
}

void append_part(std::ostream& text, const AboutTensor& part) {
  text << "safetensors: " << part.path << ": tensor " << in_quotes(part.name) << " ";
}

SafeTensorsHeader parse_safetensors(std::span<const std::byte> file, std::string_view path) {
  const std::string_view text = header_text(file, path);
  HeaderReader reader(path);
  scan_json(text, reader, {.bytes = kMaxSafeTensorsHeader});

  SafeTensorsHeader header;
  header.entries = std::move(reader.entries());
  header.metadata = std::move(reader.metadata());
  header.data_start = kLengthBytes + text.size();
  const std::uint64_t data_size = file.size() - header.data_start;
  for (const SafeTensorsEntry& entry : header.entries) {
    check_entry(entry, data_size, path);
  }
  // Empty tensors share their place with what follows; names make their order the same whatever the header's is.
  std::sort(header.entries.begin(), header.entries.end(), [](const SafeTensorsEntry& a, const SafeTensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_coverage(header.entries, data_size, path);
  return header;
}

std::string format_safetensors_header(const SafeTensorsHeader& header, std::string_view path) {
  std::string text = "{";
  if (!header.metadata.empty()) {
    text += '"' + std::string(kMetadata) + "\":{";
    for (const auto& [key, value] : header.metadata) {
      text += text.back() == '{' ? "" : ",";
      text += checked_json(key, "metadata key", path) + ":" + checked_json(value, "metadata value", path);
    }
    text += "}";
  }
  for (const SafeTensorsEntry& entry : header.entries) {
    check(entry.name != kMetadata, "safetensors: ", path, ": no tensor can have the name ", kMetadata);
    text += text.size() == 1 ? "" : ",";
    text += checked_json(entry.name, "name", path) + ":{\"dtype\":\"" + entry.dtype + "\",\"shape\":[";
    for (const std::int64_t size : entry.shape) {
      text += (text.back() == '[' ? "" : ",") + std::to_string(size);
    }
    text += "],\"data_offsets\":[" + std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]}";
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  check(text.size() <= kMaxSafeTensorsHeader, "safetensors: ", path, ": the header would have ", text.size(),
        " bytes, expected at most ", kMaxSafeTensorsHeader);
  std::string length(kLengthBytes, '\0');
  const std::uint64_t text_size = text.size();
  std::memcpy(length.data(), &text_size, kLengthBytes);
  return length + text;
}

std::string checksum_key(std::string_view tensor) { return std::string(kChecksum).append(":").append(tensor); }

std::string header_checksum(const SafeTensorsHeader& header) {
  std::string text;
  const auto add = [&text](std::string_view part) { text.append(part).push_back('\0'); };
  for (const auto& [key, value] : header.metadata) {
    if (key == kChecksum) continue;
    add(key);
    add(value);
  }
  for (const SafeTensorsEntry& entry : header.entries) {
    add(entry.name);
    add(entry.dtype);
    for (const std::int64_t size : entry.shape) add(std::to_string(size));
  }
  return xxh64_text(text);
}

}  // namespace headway::inline v0::internal
