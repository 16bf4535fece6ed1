// Model directories in 8 bits: what is written, what reads it.
#include <gtest/gtest.h>

#include "headway/mask_filler.h"
#include "headway/quantization.h"
#include "headway/random.h"
#include "headway/text_classifier.h"
#include "headway/text_encoder.h"
#include "headway/translator.h"
#include "support/bits.h"
#include "support/message_of.h"
#include "support/tiny_text_model.h"
#include "support/translator_model.h"

namespace {

namespace fs = std::filesystem;

using headway::DType;
using headway::quantize;
using headway::Tensor;
using headway::TextEncoder;
using headway_test::contains;
using headway_test::message_of;
using headway_test::read_bytes;
using headway_test::same_bits;
using headway_test::TemporaryDirectory;
using headway_test::write_bytes;
using Strings = std::vector<std::string>;

const Strings kTexts = {"Ada Lovelace was in Paris.", "the cat sat on the mat"};

TEST(Quantize, WritesADirectoryThatTasksLoad) {
  const TemporaryDirectory directory;
  const fs::path model = directory / "model", output = directory / "nested/output";
  headway_test::save_tiny(headway_test::tiny_model({.architecture = "BertForMaskedLM", .width = 64}), model);
  write_bytes(model / "README.md", "A model.");
  write_bytes(model / "pytorch_model.bin", std::string(100000, 'x'));
  write_bytes(model / ".hidden", "x");
  fs::create_directory(model / "onnx");
  const headway::QuantizedSizes sizes = quantize(model, output);
  EXPECT_EQ(sizes.before, static_cast<std::int64_t>(fs::file_size(model / "model.safetensors")));
  EXPECT_EQ(sizes.after, static_cast<std::int64_t>(fs::file_size(output / "model.safetensors")));
  EXPECT_LT(sizes.after, sizes.before / 2);  // norms and positions are much of so small a model
  Strings names;
  for (const auto& entry : fs::directory_iterator(output)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (Strings{"README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}));
  EXPECT_EQ(read_bytes(output / "README.md"), "A model.");

  const headway::TaskOptions int8 = {.dtype = DType::int8};
  const Tensor vectors = TextEncoder(output).embed(kTexts);
  EXPECT_TRUE(same_bits(vectors, TextEncoder(model, int8).embed(kTexts)));
  EXPECT_TRUE(headway_test::near(vectors, TextEncoder(model).embed(kTexts), 0.05));
  const auto word = [](const headway::MaskFiller& filler) {
    return filler.fill({"the [MASK] sat"}, {.most = 1}).at(0).masks.at(0).at(0);
  };
  EXPECT_EQ(word(headway::MaskFiller(output)).score, word(headway::MaskFiller(model, int8)).score);
  EXPECT_NEAR(word(headway::MaskFiller(output)).score, word(headway::MaskFiller(model)).score, 0.05);
}

TEST(Quantize, ModulesOfSentencesAreCopied) {
  const TemporaryDirectory directory;
  const fs::path model = directory / "model", output = directory / "output";
  headway::TextEncoderOptions options;
  options.dense.push_back({.weight = Tensor::randn({5, 24}, 3), .bias = Tensor::randn({5}, 4)});
  options.normalize = true;
  const TextEncoder encoder(headway_test::tiny_model(), headway_test::tiny_tokenizer(), options);
  encoder.save(model);
  // As directories of older versions have it.
  fs::create_directory(model / "0_Transformer");
  for (const char* const name :
       {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "sentence_bert_config.json"}) {
    if (fs::exists(model / name)) fs::rename(model / name, model / "0_Transformer" / name);
  }
  std::string modules = read_bytes(model / "modules.json");
  modules.replace(modules.find("\"path\": \"\""), 10, "\"path\": \"0_Transformer\"");
  write_bytes(model / "modules.json", modules);
  headway_test::save_tiny(headway_test::tiny_model(), model / "0_Transformer");
  const std::string problem = message_of([&] { quantize(model, output); });
  ASSERT_EQ(problem, "no error");
  EXPECT_EQ(read_bytes(output / "2_Dense/model.safetensors"), read_bytes(model / "2_Dense/model.safetensors"));
  EXPECT_TRUE(fs::exists(output / "0_Transformer/model.safetensors"));
  EXPECT_FALSE(fs::exists(output / "model.safetensors"));
  write_bytes(model / "modules.json",
              R"([{"path": "0_Transformer", "type": "x.Transformer"}, {"path": "1_Pooling", "type": "x.Pooling"},
                  {"path": "../away", "type": "x.Normalize"}])");
  EXPECT_PRED2(contains, message_of([&] { quantize(model, directory / "other"); }),
               "modules.json: path is \"../away\", expected a folder of the directory");
  EXPECT_EQ(directory.listing(), (Strings{"model", "output"}));
}

TEST(Quantize, ATranslator) {
  const TemporaryDirectory directory;
  const fs::path model = directory / "model", output = directory / "output";
  fs::create_directory(model);
  Strings lines;
  for (int i = 0; i < 60; ++i) lines.push_back("word" + std::to_string(i % 17) + " and another one here.");
  const headway::TranslationTokenizer tokenizer(
      headway::SentencePieces::train(lines, model / "source.spm", {.vocab_size = 27, .byte_fallback = false}), {});
  headway_test::random_model(tokenizer, 5, {.d_model = 32, .feed_forward = 64}).save(model);
  tokenizer.save(model);
  quantize(model, output);
  const headway::TranslateOptions options = {.search = {.beam = 2, .max_length = 9}};
  const auto text = [&](const headway::Translator& translator) {
    return translator.translate({"word3 and another"}, options).at(0);
  };
  const headway::Translation found = text(headway::Translator(output));
  const headway::Translation expected = text(headway::Translator(model, {.dtype = DType::int8}));
  EXPECT_EQ(found.text, expected.text);
  EXPECT_EQ(found.scores, expected.scores);
  const headway::Translator floating(output, {.dtype = DType::float32});
  EXPECT_EQ(floating.model().state_dict().at("embedding.weight").dtype(), DType::float32);
  EXPECT_NEAR(text(floating).scores.at(0), found.scores.at(0), 0.05);
  const headway::TaskOptions on_gpu = {.device = {.kind = headway::Device::Kind::cuda}, .dtype = DType::int8};
  EXPECT_PRED2(contains, message_of([&] { headway::Translator(model, on_gpu); }),
               "Translator: dtype is int8 on cuda, expected the CPU or a floating dtype");
}

TEST(Quantize, RefusesWhatIsThere) {
  const TemporaryDirectory directory;
  const fs::path model = directory / "model", output = directory / "output";
  headway_test::save_tiny(headway_test::tiny_model(), model);
  fs::create_directory(output);
  write_bytes(output / "notes.txt", "mine");
  EXPECT_EQ(message_of([&] { quantize(model, output); }),
            output.string() + ": is there already, expected no such directory or an empty one");
  EXPECT_PRED2(contains, message_of([&] { quantize(model, output / "notes.txt"); }), "is there already");
  EXPECT_EQ(read_bytes(output / "notes.txt"), "mine");
  fs::remove(output / "notes.txt");
  quantize(model, output);
  EXPECT_PRED2(contains, message_of([&] { quantize(output, directory / "again"); }),
               output.string() + ": its weights have 8 bits already");
  EXPECT_PRED2(contains, message_of([&] { quantize(directory / "none", directory / "again"); }), "none");
  write_bytes(model / "model.safetensors", "damaged");
  EXPECT_PRED2(contains, message_of([&] { quantize(model, directory / "again"); }), "model.safetensors");
  EXPECT_EQ(directory.listing(), (Strings{"model", "output"}));
}

}  // namespace
