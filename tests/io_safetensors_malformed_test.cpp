// safetensors files that are not well-formed: each is refused with an Error that says why.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <vector>

#include "headway/error.h"
#include "headway/safetensors.h"
#include "support/files.h"

namespace headway {
namespace {

using headway_test::TemporaryDirectory;
using headway_test::write_bytes;

std::string length_of(std::uint64_t value) {
  std::string bytes;
  for (int byte = 0; byte < 8; ++byte) {
    bytes += static_cast<char>((value >> (8 * byte)) & 0xFF);
  }
  return bytes;
}

std::string file_of(const std::string& header, std::size_t data_size = 0) {
  return length_of(header.size()) + header + std::string(data_size, '\0');
}

// A file of one tensor 't' with these fields and 8 bytes of data.
std::string tensor_file(const std::string& fields) { return file_of("{\"t\":{" + fields + "}}", 8); }

std::string entry(const std::string& name, int begin, int end) {
  return "\"" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(end - begin) + R"(],"data_offsets":[)" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

std::string repeated(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += part;
  }
  return text;
}

std::string open_message(const std::filesystem::path& path) {
  try {
    SafeTensors::open(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

struct Malformed {
  std::string bytes;
  std::string message;
};

void expect_refused(const std::vector<Malformed>& files) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory / "bad.safetensors";
  for (const auto& [bytes, expected] : files) {
    write_bytes(path, bytes);
    const std::string message = open_message(path);
    EXPECT_TRUE(message.starts_with("safetensors: " + path.string() + ": ")) << message;
    EXPECT_NE(message.find(expected), std::string::npos) << "expected: " << expected << "\ncame: " << message;
    EXPECT_LT(message.size(), path.string().size() + 600) << message;
  }
}

TEST(SafeTensorsMalformed, Lengths) {
  expect_refused({
      {"", "the file has 0 bytes, expected at least the 8"},
      {"1234567", "the file has 7 bytes, expected at least the 8"},
      {length_of(0), "the header does not start with {"},
      {length_of(2), "the header's length is 2, but only 0 bytes follow"},
      {length_of(100) + "{}", "the header's length is 100, but only 2 bytes follow"},
      {length_of(100'000'000) + "{}", "the header's length is 100000000, but only 2 bytes follow"},
      {length_of(100'000'001) + "{}", "the header's length is 100000001, expected at most 100000000"},
      {length_of(UINT64_MAX) + "{}", "the header's length is 18446744073709551615, expected at most"},
      {length_of(UINT64_MAX - 7) + "{}", "expected at most 100000000"},
      {length_of(1) + "{}", "not valid JSON"},
      {"{\"a\": \"a plain JSON file\"}", "expected at most 100000000"},
  });
}

TEST(SafeTensorsMalformed, Json) {
  expect_refused({
      {file_of(" {}"), "the header does not start with {"},
      {file_of("\xEF\xBB\xBF{}"), "the header does not start with {"},
      {file_of("[]"), "the header does not start with {"},
      {file_of("{"), "not valid JSON at its byte"},
      {file_of("{} x"), "not valid JSON"},
      {file_of("{}{}"), "not valid JSON"},
      {file_of(std::string("{}\0{}", 5)), "zero byte"},
      {file_of("{/**/}"), "not valid JSON"},
      {file_of("{\"a\":}"), "not valid JSON"},
      {file_of("{\"a\" {}}"), "not valid JSON"},
      {file_of("{\"\xFF\":{}}"), "not valid JSON at its byte 3"},
      {file_of("{\"\xC0\xAF\":{}}"), "not valid JSON"},
      {file_of("{\"\xED\xA0\x80\":{}}"), "not valid JSON"},
      {file_of("{\"\\ud800\":{}}"), "not valid JSON"},
      {file_of("{\"" + std::string(100'000, 'x')), "not valid JSON"},
      {file_of("{\"a\":" + repeated("[", 1'000'000)), "under 'a' stands an array, expected an object"},
      {file_of(repeated("{\"a\":", 1'000'000)), "tensor 'a' has the field 'a', expected dtype"},
      {file_of(repeated("{\"t\":{\"shape\":", 1) + repeated("[", 1'000'000)), "has an array in its shape"},
      {file_of("{\"a\":1}"), "under 'a' stands the number 1, expected an object"},
      {file_of("{\"a\":null}"), "under 'a' stands null, expected an object"},
      {file_of("{\"a\":true}"), "under 'a' stands a boolean, expected an object"},
      {file_of("{\"" + std::string(10'000, 'x') + "\":\"y\"}"), "xxx...' stands the string 'y', expected an object"},
      {file_of("{" + entry("a", 0, 4) + "," + entry("a", 4, 8) + "}", 8), "the name 'a' occurs twice"},
      {file_of("{" + entry("a", 0, 4) + "," + entry("\\u0061", 4, 8) + "}", 8), "the name 'a' occurs twice"},
  });
}

TEST(SafeTensorsMalformed, Metadata) {
  expect_refused({
      {file_of(R"({"__metadata__":[]})"), "under '__metadata__' stands an array, expected an object"},
      {file_of(R"({"__metadata__":null})"), "under '__metadata__' stands null, expected an object"},
      {file_of(R"({"__metadata__":{"a":1}})"), "under the metadata key 'a' stands the number 1, expected a string"},
      {file_of(R"({"__metadata__":{"a":{}}})"), "under the metadata key 'a' stands an object, expected a string"},
      {file_of(R"({"__metadata__":{"a":"b","a":"c"}})"), "the metadata key 'a' occurs twice"},
      {file_of(R"({"__metadata__":{},"__metadata__":{}})"), "the name '__metadata__' occurs twice"},
  });
}

TEST(SafeTensorsMalformed, Fields) {
  expect_refused({
      {tensor_file(""), "tensor 't' has no dtype"},
      {tensor_file(R"("dtype":"F32","data_offsets":[0,8])"), "tensor 't' has no shape"},
      {tensor_file(R"("dtype":"F32","shape":[2])"), "tensor 't' has no data_offsets"},
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1)"), "'t' has the field 'x', expected dtype"},
      {tensor_file(R"("dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8])"), "has the field dtype twice"},
      {tensor_file(R"("dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8])"), "has the field shape twice"},
      {tensor_file(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), "has the dtype 'F33', which the format does"},
      {tensor_file(R"("dtype":"f32","shape":[2],"data_offsets":[0,8])"), "has the dtype 'f32', which the format does"},
      {tensor_file(R"("dtype":32,"shape":[2],"data_offsets":[0,8])"), "has the number 32 as its dtype, expected a str"},
      {tensor_file(R"("dtype":["F32"],"shape":[2],"data_offsets":[0,8])"), "has an array as its dtype"},
      {tensor_file(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"), "has the number 2 as its shape, expected an ar"},
      {tensor_file(R"("dtype":"F32","shape":{},"data_offsets":[0,8])"), "has an object as its shape"},
      {tensor_file(R"("dtype":"F32","shape":"2","data_offsets":[0,8])"), "has the string '2' as its shape"},
      {tensor_file(R"("dtype":"F32","shape":["2"],"data_offsets":[0,8])"), "has the string '2' in its shape"},
      {tensor_file(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"), "has the number 2.0 in its shape"},
      {tensor_file(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"), "has a number with a minus sign in its shap"},
      {tensor_file(R"("dtype":"F32","shape":[1e999],"data_offsets":[0,8])"), "not valid JSON"},
      {tensor_file(R"("dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,8])"), "in its shape, expected"},
      {tensor_file(R"("dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,8])"), "which 63 bits cannot hold"},
      {tensor_file(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8])"), "more than the 8 dimensions"},
  });
}

TEST(SafeTensorsMalformed, SizesAndOffsets) {
  expect_refused({
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[0])"), "has 1 data_offsets, expected 2"},
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[])"), "has 0 data_offsets, expected 2"},
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])"), "has the number 9 in its data_offsets"},
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"), "a number with a minus sign in its data_of"},
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[0,8.5])"), "has the number 8.5 in its data_offsets"},
      {tensor_file(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"), "begins at byte 8, after its end at 0"},
      {tensor_file(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"), "ends at byte 16 of the data, which has onl"},
      {tensor_file(R"("dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615])"),
       "ends at byte 18446744073709551615 of the data"},
      {tensor_file(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"), "has 8 bytes of data, expected 12 for F32[3]"},
      {tensor_file(R"("dtype":"F64","shape":[],"data_offsets":[0,0])"), "has 0 bytes of data, expected 8 for F64[]"},
      {tensor_file(R"("dtype":"F32","shape":[0],"data_offsets":[0,8])"), "has 8 bytes of data, expected 0 for F32[0]"},
      {tensor_file(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), "has 12 bits, expected whole bytes"},
      {tensor_file(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"), "than 64 bits can count"},
      {tensor_file(R"("dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,8])"), "than 64 bits can count"},
      {tensor_file(R"("dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0])"), "64 bits can count"},
  });
}

TEST(SafeTensorsMalformed, OverlapsAndHoles) {
  expect_refused({
      {file_of("{" + entry("a", 0, 4) + "," + entry("b", 2, 8) + "}", 8),
       "tensor 'b' begins at byte 2 of the data and overlaps another, which ends at 4"},
      {file_of("{" + entry("a", 0, 8) + "," + entry("b", 0, 8) + "}", 8), "tensor 'b' begins at byte 0"},
      {file_of("{" + entry("a", 0, 8) + "," + entry("b", 2, 4) + "}", 8), "'b' begins at byte 2 of the data and overl"},
      {file_of("{" + entry("a", 0, 8) + "," + entry("b", 4, 4) + "}", 8), "'b' begins at byte 4 of the data and overl"},
      {file_of("{" + entry("a", 0, 3) + "," + entry("b", 4, 8) + "}", 8), "no tensor covers the bytes from 3 up to it"},
      {file_of("{" + entry("a", 1, 8) + "}", 8), "no tensor covers the bytes from 0 up to it"},
      {file_of("{" + entry("a", 0, 7) + "}", 8), "no tensor covers the bytes 7 to 8 at the end of the data"},
      {file_of("{}", 1), "no tensor covers the bytes 0 to 1 at the end of the data"},
      {file_of("{" + entry("a", 0, 8) + "}", 7), "ends at byte 8 of the data, which has only 7"},
  });
}

TEST(SafeTensorsMalformed, EveryTruncationIsRefused) {
  const TemporaryDirectory directory;
  const std::string whole = file_of("{" + entry("a", 0, 4) + "," + entry("b", 4, 8) + "}", 8);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_bytes(directory / "x", whole.substr(0, size));
    EXPECT_NE(open_message(directory / "x"), "no error") << size;
  }
  write_bytes(directory / "x", whole);
  EXPECT_EQ(open_message(directory / "x"), "no error");
}

TEST(SafeTensorsMalformed, BoolsAreZeroOrOne) {
  const TemporaryDirectory directory;
  std::string bytes = file_of(R"({"t":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}})", 3);
  bytes[bytes.size() - 2] = 2;
  write_bytes(directory / "x", bytes);
  const SafeTensors file = SafeTensors::open(directory / "x");
  try {
    file.get("t");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a byte other than 0 and 1 at its element 1"), std::string::npos)
        << error.what();
  }
}

TEST(SafeTensorsMalformed, WhatIsNoFile) {
  const TemporaryDirectory directory;
  EXPECT_NE(open_message(directory / "missing").find("cannot be opened: No such file"), std::string::npos);
  EXPECT_NE(open_message("").find("cannot be opened"), std::string::npos);
  EXPECT_NE(open_message(directory.path()).find("is a directory, expected a file"), std::string::npos);
  EXPECT_NE(open_message("/dev/zero").find("is a device or a pipe, expected a file"), std::string::npos);
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_NE(open_message(directory / "pipe").find("is a device or a pipe, expected a file"), std::string::npos);
}

}  // namespace
}  // namespace headway
