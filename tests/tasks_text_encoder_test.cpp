#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/text_encoder.h"
#include "headway/threads.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/small_families.h"
#include "support/tiny_text_model.h"

namespace {

using namespace headway_test;
using headway::Tensor;
using headway::TextEncoder;
using headway::TextPooling;
using Strings = std::vector<std::string>;

const Strings kTexts = {"the cat sat on the mat.", "", "Adalovelace was in London", "cat", "paris",
                        "the the the the a b"};

// The hidden states of one text, computed alone: (tokens, width).
std::vector<std::vector<double>> hidden_of(const TextEncoder& encoder, const std::string& text) {
  const headway::NoGradGuard no_grad;
  const std::vector<std::int64_t> ids = encoder.tokenizer().encode(text);
  const Tensor tokens = Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())});
  const bool encodes = encoder.model().options().kind == headway::ModelKind::encoder_decoder;
  const Tensor hidden =
      (encodes ? encoder.model().encode({.tokens = tokens}) : encoder.model().forward({.tokens = tokens})).hidden;
  std::vector<std::vector<double>> rows;
  for (std::int64_t t = 0; t < hidden.size(1); ++t) rows.push_back(hidden[0][t].to_vector());
  return rows;
}

std::vector<double> pooled(const std::vector<std::vector<double>>& rows, TextPooling pooling, std::size_t first = 0) {
  std::vector<double> vector(rows[0].size(), 0.0);
  double weights = 0.0;
  if (pooling == TextPooling::first) return rows[first];
  if (pooling == TextPooling::last) return rows.back();
  if (pooling == TextPooling::max) {
    vector = rows[first];
    for (std::size_t t = first; t < rows.size(); ++t) {
      for (std::size_t i = 0; i < vector.size(); ++i) vector[i] = std::max(vector[i], rows[t][i]);
    }
    return vector;
  }
  for (std::size_t t = first; t < rows.size(); ++t) {
    const double weight = pooling == TextPooling::weighted_mean ? static_cast<double>(t + 1) : 1.0;
    for (std::size_t i = 0; i < vector.size(); ++i) vector[i] += weight * rows[t][i];
    weights += weight;
  }
  if (pooling == TextPooling::mean_root) weights = std::sqrt(weights);
  for (double& value : vector) value /= weights;
  return vector;
}

void expect_near(const std::vector<double>& expected, const Tensor& row, const std::string& what) {
  const std::vector<double> values = row.to_vector();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 2e-5) << what << " " << i;
}

TEST(TextEncoder, PoolsAsEachTextAlone) {
  for (const TextPooling pooling : {TextPooling::first, TextPooling::max, TextPooling::mean, TextPooling::mean_root,
                                    TextPooling::weighted_mean, TextPooling::last}) {
    const TextEncoder encoder(tiny_model(), tiny_tokenizer(), {.pooling = {pooling}});
    const Tensor vectors = encoder.embed(kTexts);
    ASSERT_EQ(vectors.shape(), (headway::Shape{6, 24}));
    for (std::size_t i = 0; i < kTexts.size(); ++i) {
      expect_near(pooled(hidden_of(encoder, kTexts[i]), pooling), vectors[static_cast<std::int64_t>(i)],
                  std::to_string(static_cast<int>(pooling)) + " of " + kTexts[i]);
    }
  }
}

TEST(TextEncoder, PoolingsAreConcatenated) {
  const TextEncoder encoder(tiny_model(), tiny_tokenizer(), {.pooling = {TextPooling::first, TextPooling::mean}});
  EXPECT_EQ(encoder.width(), 48);
  const Tensor vectors = encoder.embed(kTexts);
  for (std::int64_t i = 0; i < 6; ++i) {
    const auto rows = hidden_of(encoder, kTexts[static_cast<std::size_t>(i)]);
    expect_near(pooled(rows, TextPooling::first), vectors[i].slice(0, 0, 24), "first");
    expect_near(pooled(rows, TextPooling::mean), vectors[i].slice(0, 24, 48), "mean");
  }
}

TEST(TextEncoder, BatchesAndThreadsChangeNothing) {
  const TextEncoder encoder(tiny_model(), tiny_tokenizer());
  Strings many;
  for (int i = 0; i < 60; ++i) many.push_back(kTexts[static_cast<std::size_t>(i * 5 % 6)]);
  const int threads = headway::num_threads();
  const std::vector<double> expected = encoder.embed(many).to_vector();
  for (const int count : {1, 3}) {
    headway::set_num_threads(count);
    EXPECT_EQ(encoder.embed(many).to_vector(), expected) << count << " threads";
  }
  headway::set_num_threads(threads);
  for (const std::int64_t tokens : {1, 7, 4096}) {
    const std::vector<double> values = encoder.embed(many, {.batch_tokens = tokens}).to_vector();
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 2e-5) << tokens;
  }
  EXPECT_EQ(encoder.embed({}).shape(), (headway::Shape{0, 24}));
  EXPECT_PRED2(contains, message_of([&] { encoder.embed(many, {.batch_tokens = -1}); }), "batch_tokens is -1");
}

TEST(TextEncoder, NormalizesToLengthOne) {
  const TextEncoder encoder(tiny_model(), tiny_tokenizer(), {.normalize = true});
  const Tensor vectors = encoder.embed(kTexts), plain = encoder.embed(kTexts, {.normalize = false});
  for (std::int64_t i = 0; i < 6; ++i) {
    double sum = 0.0, before = 0.0;
    for (const double value : vectors[i].to_vector()) sum += value * value;
    for (const double value : plain[i].to_vector()) before += value * value;
    EXPECT_NEAR(sum, 1.0, 1e-5);
    EXPECT_GT(std::abs(before - 1.0), 1e-3);
  }
}

TEST(TextEncoder, DenseLayersFollowThePooling) {
  const Tensor weight = Tensor::randn({5, 24}, 3), bias = Tensor::randn({5}, 4);
  const TextEncoder plain(tiny_model(), tiny_tokenizer());
  const TextEncoder encoder(tiny_model(), tiny_tokenizer(),
                            {.dense = {{weight, bias, headway::Activation::tanh}}, .normalize = false});
  EXPECT_EQ(encoder.width(), 5);
  const Tensor expected = headway::tanh(headway::linear(plain.embed(kTexts), weight, bias));
  EXPECT_EQ(encoder.embed(kTexts).to_vector(), expected.to_vector());
  EXPECT_PRED2(contains, message_of([&] {
                 TextEncoder(tiny_model(), tiny_tokenizer(), {.dense = {{Tensor::zeros({5, 7})}}});
               }),
               "float32[5, 7]");
}

TEST(TextEncoder, PromptsComeFirst) {
  headway::TextEncoderOptions options = {.prompts = {{"query", "who "}, {"text", "a "}}, .default_prompt = "text"};
  const TextEncoder encoder(tiny_model(), tiny_tokenizer(), options);
  const auto first = [&](const headway::EmbedOptions& wanted) { return encoder.embed({"cat"}, wanted).to_vector(); };
  const auto whole = [&](const std::string& text) { return encoder.embed({text}, {.prompt = ""}).to_vector(); };
  EXPECT_EQ(first({}), whole("a cat"));
  EXPECT_EQ(first({.prompt_name = "query"}), whole("who cat"));
  EXPECT_EQ(first({.prompt = "the "}), whole("the cat"));
  EXPECT_PRED2(contains, message_of([&] { first({.prompt_name = "poem"}); }), "expected one of query, text");
  // The prompt's tokens, [CLS] included, are not pooled.
  options.include_prompt = false;
  const TextEncoder without(tiny_model(), tiny_tokenizer(), options);
  expect_near(pooled(hidden_of(encoder, "a cat"), TextPooling::mean, 2), without.embed({"cat"})[0], "without prompt");
}

TEST(TextEncoder, NotesSayWhatHappened) {
  const TextEncoder encoder(tiny_model({.positions = 6}), tiny_tokenizer());
  EXPECT_EQ(encoder.max_length(), 6);
  std::vector<headway::TextNotes> notes;
  const Tensor vectors = encoder.embed({"the cat sat on the mat", "", "cat \xff", " \t", "cat"}, {.notes = &notes});
  ASSERT_EQ(notes.size(), 5u);
  EXPECT_EQ(notes[0].tokens_left_out, 2);
  EXPECT_TRUE(notes[1].empty);
  EXPECT_TRUE(notes[2].invalid_utf8);
  EXPECT_TRUE(notes[3].empty);
  EXPECT_TRUE(notes[4].none());
  EXPECT_EQ(notes[4].describe(), "");
  EXPECT_PRED2(contains, notes[0].describe(), "2 tokens at the end were left out");
  expect_near(encoder.embed({"the cat sat on"})[0].to_vector(), vectors[0], "cut");
  for (const double value : vectors.to_vector()) EXPECT_TRUE(std::isfinite(value));
}

TEST(TextEncoder, ATokenizerOfAnotherModelIsFound) {
  TinyTextOptions options;
  std::string config = tiny_config(options);
  config.replace(config.find("\"vocab_size\":24"), 15, "\"vocab_size\":12");
  headway::TransformerModel model = headway::TransformerModel::from_config(config);
  model.eval();
  const TextEncoder encoder(model, tiny_tokenizer());
  EXPECT_PRED2(contains, message_of([&] { encoder.embed({"the cat"}); }), "the tokenizer is of another model");
}

// ---- directories ----

TEST(TextEncoder, EveryFamilyEmbeds) {
  for (const SmallFamily& family : small_families()) {
    const TemporaryDirectory directory;
    save_tiny(headway::TransformerModel::from_config(family.config()), directory / "model");
    const TextEncoder encoder(directory / "model");
    EXPECT_EQ(encoder.model().options().head.kind, headway::HeadKind::none) << family.name;
    const Tensor vectors = encoder.embed(kTexts, {.batch_tokens = 12});
    for (std::size_t i = 0; i < kTexts.size(); ++i) {
      expect_near(pooled(hidden_of(encoder, kTexts[i]), TextPooling::mean), vectors[static_cast<std::int64_t>(i)],
                  family.name + " of " + kTexts[i]);
    }
  }
}

TEST(TextEncoder, ADirectoryComesBack) {
  const TemporaryDirectory directory;
  const TextEncoder encoder(tiny_model(), tiny_tokenizer(),
                            {.pooling = {TextPooling::max, TextPooling::last},
                             .dense = {{Tensor::randn({7, 48}, 1), {}, headway::Activation::relu}},
                             .normalize = true,
                             .include_prompt = false,
                             .max_length = 9,
                             .prompts = {{"q", "who "}},
                             .default_prompt = "q"});
  encoder.save(directory / "model");
  const TextEncoder read(directory / "model");
  EXPECT_EQ(read.options().pooling, encoder.options().pooling);
  EXPECT_EQ(read.options().prompts, encoder.options().prompts);
  EXPECT_EQ(read.max_length(), 9);
  EXPECT_FALSE(read.options().include_prompt);
  EXPECT_EQ(read.embed(kTexts).to_vector(), encoder.embed(kTexts).to_vector());
}

TEST(TextEncoder, ABareEncoderIsAveraged) {
  const TemporaryDirectory directory;
  save_tiny(tiny_model({.architecture = "BertForMaskedLM"}), directory / "model");
  const TextEncoder encoder(directory / "model");
  EXPECT_EQ(encoder.options().pooling, std::vector<TextPooling>{TextPooling::mean});
  EXPECT_EQ(encoder.model().options().head.kind, headway::HeadKind::none);
  expect_near(pooled(hidden_of(encoder, "the cat"), TextPooling::mean), encoder.embed({"the cat"})[0], "mean");
}

TEST(TextEncoder, OlderPoolingConfigsAreRead) {
  const TemporaryDirectory directory;
  TextEncoder(tiny_model(), tiny_tokenizer()).save(directory / "model");
  const auto write = [&](const std::string& pooling) {
    write_bytes(directory / "model/1_Pooling/config.json", pooling);
    return TextEncoder(directory / "model").options().pooling;
  };
  using enum TextPooling;
  EXPECT_EQ(
      write(R"({"word_embedding_dimension": 24, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})"),
      (std::vector<TextPooling>{first, mean}));
  EXPECT_EQ(write(R"({"pooling_mode_mean_tokens": false, "pooling_mode_lasttoken": true})"),
            std::vector<TextPooling>{last});
  EXPECT_EQ(write(R"({"pooling_mode": ["max", "cls"]})"), (std::vector<TextPooling>{max, first}));
  EXPECT_EQ(write("{}"), std::vector<TextPooling>{mean});
  EXPECT_PRED2(contains, message_of([&] { write(R"({"pooling_mode": "median"})"); }), "expected one of cls, max");
}

TEST(TextEncoder, UnknownModulesAreNamed) {
  const TemporaryDirectory directory;
  TextEncoder(tiny_model(), tiny_tokenizer()).save(directory / "model");
  const auto with = [&](const std::string& modules) {
    write_bytes(directory / "model/modules.json", modules);
    return message_of([&] { TextEncoder(directory / "model"); });
  };
  const std::string transformer =
      R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"})";
  EXPECT_PRED2(contains, with(transformer + R"(, {"path": "1_LSTM", "type": "sentence_transformers.models.LSTM"}])"),
               "module 1 is LSTM");
  EXPECT_PRED2(contains, with(transformer + "]"), "no Pooling module");
  EXPECT_PRED2(contains, with("{}"), "is not a list of modules");
  EXPECT_PRED2(contains, with("[1"), "modules.json");
}

TEST(TextEncoder, LowerCaseIsUnicode) {
  const TextEncoder lower(tiny_model(), tiny_tokenizer(), {.lower_case = true});
  EXPECT_EQ(lower.embed({"QUÉBEC"}).to_vector(), lower.embed({"québec"}).to_vector());
  std::vector<headway::TextNotes> notes;
  lower.embed({"\xC3"}, {.notes = &notes});
  EXPECT_TRUE(notes[0].invalid_utf8);
}

}  // namespace
