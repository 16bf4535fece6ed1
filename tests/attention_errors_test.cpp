// Bad input: an Error whose message names the argument, what came and what was expected.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <vector>

#include "headway/attention.h"
#include "headway/error.h"
#include "support/cases.h"

namespace headway_test {
namespace {

using headway::Shape;
using headway::Window;
using std::int64_t;

// Runs `call`, which must throw a headway::Error that contains every part.
void expect_error(const std::function<void()>& call, const std::vector<std::string>& parts) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown, expected an error about " << parts[0];
  } catch (const headway::Error& error) {
    const std::string text = error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(text.find(part), std::string::npos) << "the message \"" << text << "\" lacks \"" << part << "\"";
    }
  } catch (const std::exception& other) {
    ADD_FAILURE() << "another exception than headway::Error: " << other.what();
  }
}

class Errors : public testing::Test {
 protected:
  Errors() {
    Case c = sized(DType::float32, 2, 4, {5, 7, 8, 6});
    c.kv_heads = 2;
    p_ = build(c);
  }
  // The forward must refuse what `change` does to a good problem.
  void refuses(const std::function<void(AttentionBackward&)>& change, const std::vector<std::string>& parts) {
    AttentionBackward p = p_;
    change(p);
    expect_error([&] { headway::attention(p.query, p.key, p.value, p.options); }, parts);
  }
  // The backward must refuse what `change` does after a good forward.
  void backward_refuses(const std::function<void(AttentionBackward&)>& change, const std::vector<std::string>& parts) {
    AttentionBackward p = p_;
    p.forward = headway::attention(p.query, p.key, p.value, p.options);
    change(p);
    expect_error([&] { headway::attention_backward(p); }, parts);
  }
  AttentionBackward p_;
};

TEST_F(Errors, TheGoodProblemIsGood) {
  p_.forward = headway::attention(p_.query, p_.key, p_.value, p_.options);
  EXPECT_NO_THROW(headway::attention_backward(p_));
}

TEST_F(Errors, MissingTensors) {
  refuses([](auto& p) { p.query = {}; }, {"query", "[batch, heads, query_length, head_dim]"});
  refuses([](auto& p) { p.key = {}; }, {"key", "[batch, kv_heads, key_length, head_dim]"});
  refuses([](auto& p) { p.value = {}; }, {"value", "[batch, kv_heads, key_length, value_dim]"});
}

TEST_F(Errors, Ranks) {
  refuses([](auto& p) { p.query = p.query.select(0, 0); },
          {"query", "[4, 5, 8]", "[batch, heads, query_length, head_dim]"});
  refuses([](auto& p) { p.key = p.key.unsqueeze(0); },
          {"key", "[1, 2, 2, 7, 8]", "[batch, kv_heads, key_length, head_dim]"});
  refuses([](auto& p) { p.value = p.value.select(3, 0); },
          {"value", "[2, 2, 7]", "[batch, kv_heads, key_length, value_dim]"});
}

TEST_F(Errors, Sizes) {
  refuses([](auto& p) { p.key = Tensor::zeros({3, 2, 7, 8}); }, {"key", "batch", "3", "2"});
  refuses([](auto& p) { p.value = Tensor::zeros({1, 2, 7, 6}); }, {"value", "batch", "1", "2"});
  refuses([](auto& p) { p.key = Tensor::zeros({2, 2, 7, 9}); }, {"key", "head_dim", "9", "8"});
  refuses([](auto& p) { p.value = Tensor::zeros({2, 2, 8, 6}); }, {"value", "length", "8", "7"});
}

TEST_F(Errors, HeadCounts) {
  const auto with_kv_heads = [](std::int64_t count) {
    return [count](auto& p) {
      p.key = Tensor::zeros({2, count, 7, 8});
      p.value = Tensor::zeros({2, count, 7, 6});
    };
  };
  refuses(with_kv_heads(3), {"key", "3", "divide", "4"});
  refuses(with_kv_heads(8), {"key", "8", "4"});
  refuses(with_kv_heads(0), {"key", "0", "4"});
  refuses([](auto& p) { p.value = Tensor::zeros({2, 1, 7, 6}); }, {"value", "1", "heads", "2"});
}

TEST_F(Errors, HeadSizeZero) {
  refuses(
      [](auto& p) {
        p.query = Tensor::zeros({2, 4, 5, 0});
        p.key = Tensor::zeros({2, 2, 7, 0});
      },
      {"query", "head_dim", "0", "at least 1"});
}

TEST_F(Errors, Dtypes) {
  refuses([](auto& p) { p.key = p.key.to(DType::float64); }, {"key", "float64", "float32"});
  refuses([](auto& p) { p.value = p.value.to(DType::bfloat16); }, {"value", "bfloat16", "float32"});
  refuses([](auto& p) { p.query = Tensor::zeros({2, 4, 5, 8}, DType::int32); }, {"query", "int32", "float32"});
  refuses([](auto& p) { p.query = Tensor::zeros({2, 4, 5, 8}, DType::boolean); }, {"query", "bool", "float32"});
}

TEST_F(Errors, Masks) {
  for (const Shape& shape :
       {Shape{6, 7}, Shape{3, 1, 5, 7}, Shape{2, 2, 5, 7}, Shape{2, 4, 5, 8}, Shape{1, 2, 4, 5, 7}}) {
    const Tensor mask = Tensor::zeros(shape, DType::boolean);
    refuses([&](auto& p) { p.options.mask = Mask::keep(mask); },
            {"mask", shape.to_string(), "broadcast", "[2, 4, 5, 7]"});
    refuses([&](auto& p) { p.options.bias = mask.to(DType::float32); },
            {"bias", shape.to_string(), "broadcast", "[2, 4, 5, 7]"});
  }
  // With three dimensions it is not said whether the first counts batch entries or heads, even where one of them fits.
  for (const Shape& shape : {Shape{2, 5, 7}, Shape{4, 5, 7}, Shape{1, 5, 7}}) {
    const Tensor mask = Tensor::zeros(shape, DType::boolean);
    refuses([&](auto& p) { p.options.mask = Mask::keep(mask); }, {"mask", shape.to_string(), "four dimensions"});
    refuses([&](auto& p) { p.options.bias = mask.to(DType::float32); }, {"bias", shape.to_string(), "unsqueeze(1)"});
  }
  refuses([](auto& p) { p.options.mask = Mask::drop(Tensor::zeros({5, 7})); }, {"mask", "float32", "bool"});
  refuses([](auto& p) { p.options.bias = Tensor::zeros({5, 7}, DType::boolean); }, {"bias", "bool", "floating"});
  refuses([](auto& p) { p.options.bias = Tensor::zeros({5, 7}, DType::int64); }, {"bias", "int64", "floating"});
}

TEST_F(Errors, Numbers) {
  for (double dropout : {-0.1, 1.0, 1.5, std::nan(""), std::numeric_limits<double>::infinity()}) {
    refuses([&](auto& p) { p.options.dropout = dropout; }, {"dropout", "at least 0", "below 1"});
  }
  refuses([](auto& p) { p.options.dropout = 1.5; }, {"dropout", "1.5"});
  refuses([](auto& p) { p.options.scale = std::nan(""); }, {"scale", "nan", "finite"});
  refuses([](auto& p) { p.options.scale = INFINITY; }, {"scale", "inf", "finite"});
  refuses([](auto& p) { p.options.softcap = 0.0; }, {"softcap", "0", "above 0"});
  refuses([](auto& p) { p.options.softcap = -3.0; }, {"softcap", "-3", "above 0"});
  refuses([](auto& p) { p.options.softcap = std::nan(""); }, {"softcap", "nan"});
  refuses([](auto& p) { p.options.window = {.left = -2}; }, {"window.left", "-2", "0 or more"});
  refuses([](auto& p) { p.options.window = {.right = -1}; }, {"window.right", "-1", "0 or more"});
}

TEST_F(Errors, KeyLengths) {
  refuses([](auto& p) { p.options.key_lengths = -1; }, {"key_lengths", "-1", "0 to 7"});
  refuses([](auto& p) { p.options.key_lengths = {7, 8}; }, {"key_lengths", "8", "0 to 7"});
  refuses([](auto& p) { p.options.key_lengths = {3, -4}; }, {"key_lengths", "-4", "0 to 7"});
  refuses([](auto& p) { p.options.key_lengths = {1, 2, 3}; }, {"key_lengths", "[3]", "2"});
  refuses([](auto& p) { p.options.key_lengths = Tensor::zeros({2, 1}, DType::int64); }, {"key_lengths", "[2, 1]", "2"});
  refuses([](auto& p) { p.options.key_lengths = Tensor::zeros({2}); }, {"key_lengths", "float32", "int32 or int64"});
}

TEST_F(Errors, QueryOffset) {
  refuses([](auto& p) { p.options.query_offset = {1, 2, 3}; }, {"query_offset", "[3]", "2"});
  refuses([](auto& p) { p.options.query_offset = Tensor::zeros({2}); }, {"query_offset", "float32", "int32 or int64"});
  refuses([](auto& p) { p.options.query_offset = std::numeric_limits<int64_t>::max(); }, {"query_offset", "2^60"});
  refuses([](auto& p) { p.options.query_offset = std::numeric_limits<int64_t>::min(); }, {"query_offset", "2^60"});
}

// One number has a meaning for all entries, and none where each sequence has a beginning of its own.
template <typename Value>
concept BecomesCumulative = requires(headway::AttentionOptions options, Value value) {
  options.cu_query_lengths = value;
};
static_assert(!BecomesCumulative<int> && !BecomesCumulative<int64_t> && !BecomesCumulative<double>);
static_assert(!std::is_constructible_v<headway::CumulativeLengths, int64_t>);
static_assert(!std::is_convertible_v<headway::PerEntry, headway::CumulativeLengths>);
static_assert(BecomesCumulative<std::vector<int64_t>> && BecomesCumulative<Tensor>);
static_assert(BecomesCumulative<std::initializer_list<int64_t>>);
static_assert(std::is_convertible_v<int, headway::PerEntry>);

TEST_F(Errors, PackedBatches) {
  refuses(
      [](auto& p) {
        p.options.cu_query_lengths = {0, 5};
        p.options.cu_key_lengths = {0, 7};
      },
      {"query", "batch", "2", "1", "cu_query_lengths"});
  p_.query = p_.query.slice(0, 0, 1);
  p_.key = p_.key.slice(0, 0, 1);
  p_.value = p_.value.slice(0, 0, 1);
  using Lengths = std::vector<int64_t>;
  auto packed = [](Lengths queries, Lengths keys) {
    return [=](AttentionBackward& p) {
      p.options.cu_query_lengths = queries;
      p.options.cu_key_lengths = keys;
    };
  };
  refuses([](auto& p) { p.options.cu_query_lengths = {0, 5}; }, {"cu_query_lengths", "cu_key_lengths"});
  refuses([](auto& p) { p.options.cu_key_lengths = {0, 7}; }, {"cu_query_lengths", "cu_key_lengths"});
  refuses(packed({0, 3, 5}, {0, 7}), {"cu_key_lengths", "2", "3"});
  refuses(packed({0, 3, 4}, {0, 2, 7}), {"cu_query_lengths", "4", "5"});
  refuses(packed({0, 3, 5}, {0, 2, 9}), {"cu_key_lengths", "9", "7"});
  refuses(packed({1, 3, 5}, {0, 2, 7}), {"cu_query_lengths", "1", "0"});
  refuses(packed({0, 3, 5}, {0, 9, 7}), {"cu_key_lengths", "9", "7"});
  refuses(packed({0, 3, 5}, {0, -2, 7}), {"cu_key_lengths", "-2"});
  refuses(packed({}, {}), {"cu_query_lengths", "[0]"});
  // Key lengths count inside the sequence.
  refuses(
      [](auto& p) {
        p.options.cu_query_lengths = {0, 3, 5};
        p.options.cu_key_lengths = {0, 2, 7};
        p.options.key_lengths = {3, 5};
      },
      {"key_lengths", "3", "0 to 2"});
  refuses(
      [](auto& p) {
        p.options.cu_query_lengths = Tensor::zeros({3});
        p.options.cu_key_lengths = {0, 2, 7};
      },
      {"cu_query_lengths", "float32", "int32 or int64"});
}

TEST_F(Errors, PerHead) {
  refuses([](auto& p) { p.options.sinks = Tensor::zeros({3}); }, {"sinks", "[3]", "[4]"});
  refuses([](auto& p) { p.options.sinks = Tensor::zeros({2, 4}); }, {"sinks", "[2, 4]", "[4]"});
  refuses([](auto& p) { p.options.sinks = Tensor::zeros({4}, DType::int32); }, {"sinks", "int32", "floating"});
  refuses([](auto& p) { p.options.alibi_slopes = Tensor::zeros({2}); }, {"alibi_slopes", "[2]", "[4]"});
  refuses(
      [](auto& p) {
        p.options.alibi_slopes = Tensor::zeros({3, 4});
      },
      {"alibi_slopes", "[3, 4]", "[batch, heads]"});
  refuses([](auto& p) { p.options.alibi_slopes = Tensor::zeros({4}, DType::boolean); },
          {"alibi_slopes", "bool", "floating"});
}

// ---- the backward ----

TEST_F(Errors, BackwardChecksTheInputsToo) {
  backward_refuses([](auto& p) { p.query = {}; }, {"query"});
  backward_refuses([](auto& p) { p.key = p.key.to(DType::float64); }, {"key", "float64", "float32"});
  backward_refuses([](auto& p) { p.options.dropout = 2; }, {"dropout", "2"});
}

TEST_F(Errors, BackwardNeedsTheForward) {
  backward_refuses([](auto& p) { p.forward = {}; }, {"forward"});
  backward_refuses([](auto& p) { p.forward.output = {}; }, {"forward.output"});
  backward_refuses([](auto& p) { p.forward.logsumexp = {}; }, {"forward.logsumexp"});
  backward_refuses(
      [](auto& p) {
        p.forward.output = Tensor::zeros({2, 4, 5, 7});
      },
      {"forward.output", "[2, 4, 5, 7]", "[2, 4, 5, 6]"});
  backward_refuses([](auto& p) { p.forward.output = p.forward.output.to(DType::float64); },
                   {"forward.output", "float64", "float32"});
  backward_refuses(
      [](auto& p) {
        p.forward.logsumexp = Tensor::zeros({2, 4, 6});
      },
      {"forward.logsumexp", "[2, 4, 6]", "[2, 4, 5]"});
  backward_refuses([](auto& p) { p.forward.logsumexp = p.forward.logsumexp.to(DType::bfloat16); },
                   {"forward.logsumexp", "bfloat16", "float32"});
}

TEST_F(Errors, BackwardGradients) {
  backward_refuses(
      [](auto& p) {
        p.d_output = Tensor::zeros({2, 4, 5, 8});
      },
      {"d_output", "[2, 4, 5, 8]", "[2, 4, 5, 6]"});
  backward_refuses([](auto& p) { p.d_output = p.d_output.to(DType::float16); }, {"d_output", "float16", "float32"});
  backward_refuses(
      [](auto& p) {
        p.d_logsumexp = Tensor::zeros({2, 4, 4});
      },
      {"d_logsumexp", "[2, 4, 4]", "[2, 4, 5]"});
  backward_refuses([](auto& p) { p.d_logsumexp = Tensor::zeros({2, 4, 5}, DType::int32); }, {"d_logsumexp", "int32"});
  // Weights that the options do not ask for have no gradient.
  backward_refuses([](auto& p) { p.d_weights = Tensor::zeros({2, 4, 5, 7}); }, {"d_weights", "weights"});
  p_.options.weights = Weights::per_head;
  backward_refuses([](auto& p) { p.d_weights = Tensor::zeros({2, 5, 7}); }, {"d_weights", "[2, 5, 7]", "[2, 4, 5, 7]"});
  backward_refuses([](auto& p) { p.d_weights = Tensor::zeros({2, 4, 5, 7}, DType::boolean); }, {"d_weights", "bool"});
  p_.options.weights = Weights::mean;
  backward_refuses(
      [](auto& p) {
        p.d_weights = Tensor::zeros({2, 4, 5, 7});
      },
      {"d_weights", "[2, 4, 5, 7]", "[2, 5, 7]"});
}

// ---- memory ----

TEST_F(Errors, SizesThatOverflow) {
  const int64_t huge = int64_t{1} << 32;
  expect_error([&] { Tensor::empty({huge, huge, 2}); }, {"[4294967296, 4294967296, 2]"});
  expect_error([&] { Tensor::empty({huge, huge / 8, 1}); }, {"[4294967296, 536870912, 1]"});
  expect_error([] { Tensor::empty({2, -3}); }, {"-3"});
  // Keys of few bytes, seen so often that the weights are more than can be counted.
  const int64_t often = int64_t{1} << 60;
  const Tensor query = Tensor::zeros({1, 1, 8, 1}), key = Tensor::zeros({1, 1, 1, 1}).expand({1, 1, often, 1});
  expect_error([&] { headway::attention(query, key, key, {.weights = Weights::per_head}); },
               {"[1, 1, 8, 1152921504606846976]"});
}

TEST_F(Errors, NullData) {
  expect_error([] { Tensor::wrap(nullptr, {2, 2, 7, 8}, DType::float32); }, {"null"});
  EXPECT_NO_THROW(Tensor::wrap(nullptr, {2, 0, 7, 8}, DType::float32));
}

}  // namespace
}  // namespace headway_test
