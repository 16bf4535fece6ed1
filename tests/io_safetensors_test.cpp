// safetensors files that are well-formed: round trips, the layout of the bytes, sharing.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "headway/error.h"
#include "headway/safetensors.h"
#include "headway/tensor.h"
#include "support/files.h"
#include "support/message_of.h"

namespace headway {
namespace {

using namespace headway_test;
using Metadata = std::map<std::string, std::string>;
using Names = std::vector<std::string>;

const std::vector<DType> kAllDTypes = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                                       DType::int32,   DType::int64,   DType::boolean,  DType::int8};

// The bytes of all elements in row-major order.
std::string bytes_of(const Tensor& tensor) {
  const Tensor dense = tensor.contiguous();
  const std::size_t size = static_cast<std::size_t>(dense.element_count()) * item_size(dense.dtype());
  return size == 0 ? std::string() : std::string(static_cast<const char*>(dense.raw_data()), size);
}

void expect_same(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.dtype(), expected.dtype());
  EXPECT_EQ(actual.shape(), expected.shape());
  EXPECT_TRUE(actual.is_contiguous());
  EXPECT_EQ(bytes_of(actual), bytes_of(expected));
}

// 8 bytes of length, least significant first, then the header and the data.
std::string file_of(const std::string& header, const std::string& data = {}) {
  std::string length;
  for (int byte = 0; byte < 8; ++byte) {
    length += static_cast<char>((header.size() >> (8 * byte)) & 0xFF);
  }
  return length + header + data;
}

TEST(SafeTensors, EveryDTypeAndShapeComesBack) {
  const TemporaryDirectory directory;
  std::map<std::string, Tensor> tensors;
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{7}, Shape{3, 5}, Shape{2, 0, 4}, Shape{0}, Shape{1, 2, 1, 3, 1, 2, 1, 2}}) {
      const Tensor values = Tensor::randn(shape, tensors.size()).to(dtype);
      tensors[std::string(dtype_name(dtype)) + shape.to_string()] = values;
    }
  }
  save_safetensors(directory / "all.safetensors", tensors);
  const SafeTensors file = SafeTensors::open(directory / "all.safetensors");
  EXPECT_EQ(file.names().size(), tensors.size());
  EXPECT_TRUE(file.metadata().empty());
  for (const auto& [name, tensor] : tensors) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(file.contains(name));
    expect_same(file.get(name), tensor);
  }
}

TEST(SafeTensors, SpecialValuesKeepTheirBits) {
  const TemporaryDirectory directory;
  const std::vector<std::int64_t> bits = {0x7FF0000000000001, std::numeric_limits<std::int64_t>::min(), 1, -1};
  Tensor values = Tensor::empty({4}, DType::float64);
  std::memcpy(values.raw_data(), bits.data(), 32);
  save_safetensors(directory / "x", {{"x", values}});
  expect_same(SafeTensors::open(directory / "x").get("x"), values);
}

TEST(SafeTensors, ViewsAreWrittenInRowMajorOrder) {
  const TemporaryDirectory directory;
  for (const DType dtype : kAllDTypes) {
    const Tensor base = Tensor::randn({4, 6, 3}, 5).to(dtype);
    const std::map<std::string, Tensor> views = {{"transposed", base.transpose(0, 2)},
                                                 {"sliced", base.slice(1, 1, 6, 2)},
                                                 {"selected", base.select(2, 1)},
                                                 {"expanded", base.slice(0, 1, 2).expand({5, 6, 3})}};
    save_safetensors(directory / "views", views);
    const SafeTensors file = SafeTensors::open(directory / "views");
    for (const auto& [name, view] : views) {
      SCOPED_TRACE(name);
      expect_same(file.get(name), view);
    }
  }
}

TEST(SafeTensors, MetadataAndNamesAreUnicode) {
  const TemporaryDirectory directory;
  const Metadata metadata = {
      {"format", "pt"}, {"", "empty key"}, {"注意力", "多头 \U0001F680"}, {"quote\"\\\n", "\t\x01\x7F é"}};
  const std::string name = "层.0.weight \"q\" \U0001F600";
  save_safetensors(directory / "多头.safetensors", {{name, Tensor::full({2}, 3.0)}, {"", Tensor::zeros({1})}},
                   metadata);
  const SafeTensors file = SafeTensors::open(directory / "多头.safetensors");
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.get(name).to_vector(), (std::vector<double>{3.0, 3.0}));
  EXPECT_TRUE(file.contains(""));
}

TEST(SafeTensors, LayoutByteForByte) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "x",
                   {{"a", Tensor::from<bool>({true, false, true}, {3})},
                    {"b", Tensor::from<std::int32_t>({1, -2}, {2, 1})},
                    {"c", Tensor::from<std::int32_t>({0x01020304}, {})},
                    {"d", Tensor::from<double>({1.0}, {1})}},
                   {{"k", "v"}});
  const std::string header = R"({"__metadata__":{"k":"v"},)"
                             R"("d":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"I32","shape":[2,1],"data_offsets":[8,16]},)"
                             R"("c":{"dtype":"I32","shape":[],"data_offsets":[16,20]},)"
                             R"("a":{"dtype":"BOOL","shape":[3],"data_offsets":[20,23]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  ASSERT_NE(header.size(), padded.size());
  const std::string data(
      "\0\0\0\0\0\0\xF0\x3F"
      "\1\0\0\0\xFE\xFF\xFF\xFF"
      "\4\3\2\1"
      "\1\0\1",
      23);
  EXPECT_EQ(read_bytes(directory / "x"), file_of(padded, data));
  EXPECT_EQ(SafeTensors::open(directory / "x").names(), (Names{"d", "b", "c", "a"}));
}

TEST(SafeTensors, NothingIsAFileToo) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "x", {});
  EXPECT_EQ(read_bytes(directory / "x"), file_of("{}      "));
  EXPECT_TRUE(SafeTensors::open(directory / "x").names().empty());

  save_safetensors(directory / "x", {}, {{"k", "v"}});
  EXPECT_EQ(SafeTensors::open(directory / "x").metadata(), (Metadata{{"k", "v"}}));
}

TEST(SafeTensors, ReadsWhatOthersMayWrite) {
  const TemporaryDirectory directory;
  // Fields and tensors in any order, whitespace, escapes, no padding, empty tensors between the others.
  write_bytes(directory / "x", file_of("{ \"late\": {\"shape\": [1, 2],\n\"data_offsets\":[4,6], \"dtype\":\"I8\"},"
                                       "\"none\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[4,4]},"
                                       "\"\\u65e9\":{\"data_offsets\":[0,4],\"dtype\":\"F32\",\"shape\":[]},"
                                       "\"__metadata__\":{}}\t\r\n",
                                       std::string("\0\0\x80\x3F\1\2", 6)));
  const SafeTensors file = SafeTensors::open(directory / "x");
  EXPECT_EQ(file.names(), (Names{"早", "none", "late"}));
  EXPECT_EQ(file.get("早").item(), 1.0);
  EXPECT_EQ(file.get("none").shape(), (Shape{3, 0}));
}

TEST(SafeTensors, OtherDTypesAreListedAndRefusedByName) {
  const TemporaryDirectory directory;
  const std::map<std::string, int> bits = {{"U8", 8},          {"U16", 16},        {"I16", 16},    {"U32", 32},
                                           {"U64", 64},        {"F8_E4M3", 8},     {"F8_E5M2", 8}, {"F8_E8M0", 8},
                                           {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F4", 4},      {"F6_E2M3", 6},
                                           {"F6_E3M2", 6},     {"C64", 64}};
  for (const auto& [dtype, size] : bits) {
    SCOPED_TRACE(dtype);
    const std::string bytes = std::to_string(size * 4 / 8);
    write_bytes(directory / "x",
                file_of(R"({"t":{"dtype":")" + dtype + R"(","shape":[4],"data_offsets":[0,)" + bytes + "]}}",
                        std::string(static_cast<std::size_t>(size) * 4 / 8, 'x')));
    const SafeTensors file = SafeTensors::open(directory / "x");
    EXPECT_EQ(file.names(), Names{"t"});
    const std::string message = message_of([&] { file.get("t"); });
    EXPECT_NE(message.find("'t' has the dtype " + dtype + ", expected F32"), std::string::npos) << message;
  }
}

TEST(SafeTensors, AlignedTensorsShareTheMappingAndMisalignedOnesAreCopied) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "x", {{"a", Tensor::from<float>({1, 2}, {2})}});
  const SafeTensors aligned = SafeTensors::open(directory / "x");
  EXPECT_EQ(aligned.get("a").raw_data(), aligned.get("a").raw_data());
  EXPECT_EQ(SafeTensors(aligned).get("a").raw_data(), aligned.get("a").raw_data());

  // One byte of BOOL before the float moves it off its alignment.
  const std::string header = R"({"b":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]},)"
                             R"("f":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  write_bytes(directory / "y",
              file_of(header + std::string((8 - header.size() % 8) % 8, ' '), std::string("\1\0\0\x80\x3F", 5)));
  const SafeTensors misaligned = SafeTensors::open(directory / "y");
  EXPECT_EQ(misaligned.get("f").item(), 1.0);
  EXPECT_NE(misaligned.get("f").raw_data(), nullptr);
  const Tensor first = misaligned.get("f");
  EXPECT_NE(first.raw_data(), misaligned.get("f").raw_data());
}

TEST(SafeTensors, TensorsOutliveTheFileObjectAndTheFile) {
  const TemporaryDirectory directory;
  const Tensor values = Tensor::randn({100, 100}, 1);
  save_safetensors(directory / "x", {{"x", values}});
  std::optional<SafeTensors> file = SafeTensors::open(directory / "x");
  const Tensor tensor = file->get("x");
  file.reset();
  std::filesystem::remove(directory / "x");
  expect_same(tensor, values);
}

TEST(SafeTensors, AStrayWriteStaysPrivate) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "x", {{"x", Tensor::full({4}, 1.0)}});
  const std::string before = read_bytes(directory / "x");
  SafeTensors::open(directory / "x").get("x").fill(2.0);
  EXPECT_EQ(read_bytes(directory / "x"), before);
  EXPECT_EQ(SafeTensors::open(directory / "x").get("x").at({0}), 1.0);
}

TEST(SafeTensors, AFileCanBeReplacedByItsOwnTensors) {
  const TemporaryDirectory directory;
  const Tensor values = Tensor::randn({300, 100}, 1);
  save_safetensors(directory / "x", {{"a", values}, {"b", Tensor::full({5}, 1.0)}});
  const SafeTensors file = SafeTensors::open(directory / "x");
  save_safetensors(directory / "x", {{"a", file.get("a").transpose(0, 1)}});
  expect_same(file.get("a"), values);
  expect_same(SafeTensors::open(directory / "x").get("a"), values.transpose(0, 1));
}

TEST(SafeTensors, AWholeFileIsLoadedAtOnce) {
  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "all.safetensors";
  const std::map<std::string, Tensor> saved = {{"a", Tensor::randn({2, 3}, 1)}, {"b", Tensor::zeros({}, DType::int64)}};
  save_safetensors(path, saved);
  const std::map<std::string, Tensor> loaded = load_safetensors(path);
  ASSERT_EQ(loaded.size(), saved.size());
  for (const auto& [name, tensor] : saved) expect_same(loaded.at(name), tensor);
  EXPECT_NE(message_of([&] { load_safetensors(directory.path() / "none"); }), "no error");
}

TEST(SafeTensors, AMissingNameIsNamed) {
  const TemporaryDirectory directory;
  save_safetensors(directory / "x", {{"a", Tensor::zeros({1})}});
  const SafeTensors file = SafeTensors::open(directory / "x");
  EXPECT_FALSE(file.contains("b"));
  EXPECT_FALSE(file.contains("__metadata__"));
  EXPECT_NE(message_of([&] { file.get("b"); }).find("there is no tensor 'b' among its 1"), std::string::npos);
}

TEST(SafeTensors, ManyThreadsReadAtOnce) {
  const TemporaryDirectory directory;
  std::map<std::string, Tensor> tensors;
  for (std::uint64_t i = 0; i < 20; ++i) {
    tensors["layer." + std::to_string(i)] = Tensor::randn({16, 16}, i).to(i % 2 == 0 ? DType::float32 : DType::float16);
  }
  save_safetensors(directory / "x", tensors);
  const SafeTensors shared = SafeTensors::open(directory / "x");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&, own = thread % 2 == 0] {
      const SafeTensors file = own ? SafeTensors::open(directory / "x") : shared;
      for (int repeat = 0; repeat < 10; ++repeat) {
        for (const std::string& name : file.names()) {
          wrong += bytes_of(file.get(name)) != bytes_of(tensors.at(name));
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace headway
