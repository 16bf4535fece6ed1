// Tensors without elements whose other sizes are huge: every call ends at once, with an empty result or with an Error.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "headway/attention.h"
#include "headway/error.h"
#include "headway/layers.h"
#include "headway/multi_head_attention.h"
#include "headway/ops.h"
#include "headway/transformer.h"

#if defined(__SANITIZE_ADDRESS__)
// A size that cannot be had is an error of ours, not AddressSanitizer's.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
#endif

namespace {

using headway::DType;
using headway::Shape;
using headway::Tensor;

constexpr std::int64_t kHuge = std::int64_t{1} << 30;
// Far more than a call takes, and far less than a loop over as many entries.
constexpr double kAtOnce = 0.5;

Tensor leaf(const Shape& shape) { return Tensor::zeros(shape).set_requires_grad(); }

using Work = std::function<void()>;

void expect_at_once(const std::string& name, const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    work();
  } catch (const headway::Error&) {
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(taken.count(), kAtOnce) << name;
}

TEST(HugeEmpty, AttentionGivesZerosAtOnce) {
  const auto call = [](const Shape& query, const Shape& key, const headway::AttentionOptions& options) {
    headway::AttentionBackward problem;
    problem.query = problem.d_output = Tensor::zeros(query);
    problem.key = problem.value = Tensor::zeros(key);
    problem.options = options;
    problem.forward = headway::attention(problem.query, problem.key, problem.value, options);
    EXPECT_EQ(problem.forward.output.shape(), query);
    const headway::AttentionGradients gradients = headway::attention_backward(problem);
    EXPECT_EQ(gradients.key.shape(), key);
  };
  const Shape without_rows = {kHuge, 8, 0, 64}, without_heads = {kHuge, 0, 4, 64};
  expect_at_once("rows", [&] { call(without_rows, without_rows, {}); });
  expect_at_once("heads", [&] { call(without_heads, without_heads, {}); });
  headway::AttentionOptions options;
  options.causal = headway::Causal::bottom_right;
  options.key_lengths = 0;
  options.query_offset = 3;
  options.alibi_slopes = Tensor::zeros({8});
  options.sinks = Tensor::zeros({8});
  options.weights = headway::Weights::mean;
  options.dropout = 0.5;
  options.mask = headway::Mask::keep(Tensor::zeros({kHuge, 1, 0, 0}, DType::boolean));
  expect_at_once("options", [&] { call(without_rows, without_rows, options); });
  EXPECT_THROW(headway::attention(Tensor::zeros(without_rows), Tensor::zeros(without_rows), Tensor::zeros(without_rows),
                                  {.key_lengths = 1}),
               headway::Error);
  expect_at_once("recorded", [&] {
    const Tensor x = leaf(without_rows);
    sum(headway::attention(x, x, x).output).backward();
    EXPECT_EQ(x.grad().shape(), without_rows);
  });
}

// The mean over no heads is zero.
TEST(HugeEmpty, MeanWeightsOfNoHeads) {
  const Tensor x = Tensor::zeros({2, 0, 3, 8});
  const headway::AttentionResult result = headway::attention(x, x, x, {.weights = headway::Weights::mean});
  EXPECT_EQ(result.weights.to_vector(), std::vector<double>(2 * 3 * 3, 0.0));
}

TEST(HugeEmpty, Operations) {
  using headway::sum;
  const Shape rows = {kHuge, 0, 8}, columns = {kHuge, 4, 0};
  const auto back = [](const Tensor& result) { sum(result).backward(); };
  for (const Shape& shape : {rows, columns}) {
    const Tensor x = leaf(shape), y = leaf(shape), plain = Tensor::zeros(shape);
    const Tensor mask = Tensor::zeros(shape, DType::boolean);
    const std::int64_t width = shape[2];
    const std::vector<std::pair<const char*, Work>> calls = {
        {"add", [&] { back(add(x, y)); }},
        {"add broadcast", [&] { back(add(x, leaf({width}))); }},
        {"mul", [&] { back(mul(x, y)); }},
        {"div", [&] { back(div(x, y)); }},
        {"scale", [&] { back(scale(x, 2)); }},
        {"exp", [&] { back(exp(x)); }},
        {"maximum", [&] { back(maximum(x, y)); }},
        {"gelu", [&] { back(gelu(x)); }},
        {"dropout", [&] { back(dropout(x, 0.5, 1)); }},
        {"eq", [&] { eq(x, y); }},
        {"where", [&] { back(where(mask, x, y)); }},
        {"mean", [&] { back(mean(x)); }},
        {"sum over all but the last",
         [&] {
           back(sum(x, {0, 1}));
         }},
        {"sum over the first", [&] { back(sum(x, {0})); }},
        {"max", [&] { max(x); }},
        {"max over the first", [&] { max(x, 0); }},
        {"argmax over the first", [&] { argmax(x, 0); }},
        {"softmax", [&] { back(softmax(x)); }},
        {"softmax over the first", [&] { back(softmax(x, 0)); }},
        {"log_softmax", [&] { back(log_softmax(x)); }},
        {"layer_norm", [&] { back(layer_norm(x, leaf({width}), leaf({width}))); }},
        {"rms_norm", [&] { back(rms_norm(x, leaf({width}))); }},
        {"add_dropout_norm", [&] { back(add_dropout_norm(x, y).normed); }},
        {"concat",
         [&] {
           back(headway::concat({x, y}, 1));
         }},
        {"concat in front",
         [&] {
           back(headway::concat({x, y}, 0));
         }},
        {"stack",
         [&] {
           back(headway::stack({x, y}));
         }},
        {"split",
         [&] {
           back(split(x, {kHuge / 2, kHuge / 2})[1]);
         }},
        {"rotary", [&] { back(rotary(x.unsqueeze(1))); }},
        {"transpose", [&] { back(x.transpose(0, 2).contiguous()); }},
        {"reshape",
         [&] {
           back(x.transpose(0, 2).reshape({shape[2], shape[0] * shape[1]}));
         }},
        {"to", [&] { back(x.to(DType::bfloat16)); }},
        {"clone", [&] { plain.clone(); }},
        {"fill", [&] { plain.clone().fill(3); }},
        {"print",
         [&] {
           std::ostringstream text;
           text << plain;
           EXPECT_LT(text.str().size(), 10000u);
         }},
        {"to_vector", [&] { EXPECT_TRUE(plain.to_vector().empty()); }},
        {"randn", [&] { Tensor::randn(shape, 1); }},
    };
    for (const auto& [name, work] : calls) expect_at_once(std::string(name) + " " + shape.to_string(), work);
  }
}

TEST(HugeEmpty, Products) {
  const auto back = [](const Tensor& result) { sum(result).backward(); };
  expect_at_once("no rows", [&] { back(matmul(leaf({kHuge, 0, 8}), leaf({8, 8}))); });
  expect_at_once("no columns", [&] { back(matmul(leaf({kHuge, 0, 8}), leaf({kHuge, 8, 0}))); });
  expect_at_once("both empty", [&] { back(matmul(leaf({kHuge, 0, 0}), leaf({kHuge, 0, 0}))); });
  expect_at_once("no features out", [&] { back(linear(leaf({kHuge, 4, 0}), leaf({0, 0}), leaf({0}))); });
  expect_at_once("linear", [&] { back(linear(leaf({kHuge, 0, 8}), leaf({16, 8}), leaf({16}))); });
  const Tensor ids = Tensor::zeros({kHuge, 0}, DType::int64);
  expect_at_once("embedding", [&] { back(embedding(leaf({5, 8}), ids)); });
  expect_at_once("cross_entropy", [&] { back(cross_entropy(leaf({kHuge, 0, 5}), ids)); });
}

TEST(HugeEmpty, Layers) {
  const Tensor x = Tensor::zeros({kHuge, 0, 8});
  const auto back = [](const Tensor& result) { sum(result).backward(); };
  const headway::TransformerLayerOptions sizes = {.d_model = 8, .nhead = 2, .dim_feedforward = 8};
  expect_at_once("MultiHeadAttention", [&] {
    const headway::MultiHeadAttention layer({.embed_dim = 8, .num_heads = 2});
    back(layer.forward({.query = x, .key = x, .value = x, .weights = headway::Weights::mean}).output);
  });
  expect_at_once("MultiHeadAttention with padding", [&] {
    const headway::MultiHeadAttention layer({.embed_dim = 8, .num_heads = 2});
    const Tensor padding = Tensor::zeros({kHuge, 0}, DType::boolean);
    back(layer.forward({.query = x, .key = x, .value = x, .key_padding_mask = headway::Mask::keep(padding)}).output);
  });
  expect_at_once("TransformerEncoder", [&] {
    back(headway::TransformerEncoder({.layer = sizes, .num_layers = 2}).forward({.source = x}).output);
  });
  expect_at_once("Transformer", [&] {
    const headway::Transformer model({.layer = sizes, .num_encoder_layers = 1, .num_decoder_layers = 1});
    back(model.forward({.source = x, .target = x}).output);
  });
}

}  // namespace
