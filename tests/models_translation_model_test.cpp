#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/optimizer.h"
#include "headway/random.h"
#include "headway/threads.h"
#include "headway/translation_model.h"
#include "support/bits.h"
#include "support/message_of.h"
#include "support/small_translation_model.h"

namespace {

using headway::Tensor;
using headway::TranslationInput;
using headway::TranslationModel;
using headway::TranslationModelOptions;
using headway_test::ids;
using headway_test::message_of;
using headway_test::near;
using headway_test::same_bits;
using headway_test::small_options;

TranslationModel make(const TranslationModelOptions& options = small_options()) {
  headway::set_random_seed(3);
  TranslationModel model(options);
  model.eval();
  return model;
}

TEST(TranslationModel, StartsWithUnitEmbeddingsAndAZeroRowForPad) {
  TranslationModelOptions options = small_options();
  options.vocab_size = 400;
  options.d_model = 64;
  options.pad_token_id = options.decoder_start_token_id = 399;
  const Tensor weight = make(options).state_dict().at("embedding.weight");
  double squares = 0.0;
  for (const double value : weight.to_vector()) squares += value * value;
  EXPECT_NEAR(squares / 399.0, 1.0, 0.05);  // a row's length is 1: sqrt(64) times it, each value is about 1
  for (const double value : weight.select(0, 399).to_vector()) EXPECT_EQ(value, 0.0);
}

TEST(TranslationModel, PaddingChangesNothing) {
  const TranslationModel model = make();
  const Tensor alone = model.forward({.source = ids({{5, 6, 0}}), .target = ids({{19, 7, 8}})}).logits;
  const Tensor padded = model
                            .forward({.source = ids({{5, 6, 0, 19, 19}, {9, 8, 7, 6, 0}}),
                                      .source_lengths = {3, 5},
                                      .target = ids({{19, 7, 8}, {19, 1, 2}})})
                            .logits;
  EXPECT_EQ(padded.shape(), headway::Shape({2, 3, 20}));
  EXPECT_TRUE(near(padded.slice(0, 0, 1), alone, 1e-5));
}

TEST(TranslationModel, LaterTargetsAreNotSeen) {
  const TranslationModel model = make();
  const Tensor source = ids({{5, 6, 0}});
  const Tensor a = model.forward({.source = source, .target = ids({{19, 7, 8}})}).logits;
  const Tensor b = model.forward({.source = source, .target = ids({{19, 7, 3}})}).logits;
  EXPECT_TRUE(near(a.slice(1, 0, 2), b.slice(1, 0, 2), 1e-6));
  EXPECT_FALSE(near(a.slice(1, 2, 3), b.slice(1, 2, 3), 1e-4));
}

TEST(TranslationModel, StepsGiveWhatTheWholeGives) {
  const TranslationModel model = make();
  const Tensor source = ids({{5, 6, 0, 19}, {9, 8, 7, 0}});
  const Tensor lengths = Tensor::from<std::int64_t>({3, 4}, {2}), target = ids({{19, 7, 8}, {19, 1, 2}});
  const Tensor whole = model.forward({.source = source, .source_lengths = lengths, .target = target}).logits;
  const headway::NoGradGuard guard;
  const Tensor memory = model.encode(source, lengths).output;
  headway::DecoderCache cache;
  for (std::int64_t i = 0; i < 3; ++i) {
    const Tensor step = model.decode_step(target.select(1, i).contiguous(), memory, lengths, cache);
    EXPECT_TRUE(near(step, whole.select(1, i), 1e-5)) << i;
  }
}

TEST(TranslationModel, GivesWeightsOfEveryLayer) {
  const TranslationModel model = make();
  const auto [logits, encoder, decoder, cross] = model.forward({.source = ids({{5, 6, 0, 19}}),
                                                                .source_lengths = 3,
                                                                .target = ids({{19, 7}}),
                                                                .weights = headway::Weights::per_head});
  ASSERT_EQ(encoder.size(), 2U);
  ASSERT_EQ(decoder.size(), 3U);
  ASSERT_EQ(cross.size(), 3U);
  EXPECT_EQ(encoder[1].shape(), headway::Shape({1, 2, 4, 4}));
  EXPECT_EQ(decoder[0].shape(), headway::Shape({1, 4, 2, 2}));
  EXPECT_EQ(cross[2].shape(), headway::Shape({1, 4, 2, 4}));
  double sum = 0.0;
  for (std::int64_t key = 0; key < 4; ++key) sum += cross[2].at({0, 3, 1, key});
  EXPECT_NEAR(sum, 1.0, 1e-6);
  EXPECT_EQ(cross[2].at({0, 3, 1, 3}), 0.0);
  EXPECT_EQ(decoder[0].at({0, 0, 0, 1}), 0.0);
  const auto means = model.encode(ids({{5, 6, 0, 19}}), 3, headway::Weights::mean);
  ASSERT_EQ(means.weights.size(), 2U);
  EXPECT_EQ(means.weights[0].shape(), headway::Shape({1, 4, 4}));
  EXPECT_TRUE(model.encode(ids({{5, 6, 0, 19}})).weights.empty());
}

TEST(TranslationModel, TrainingLearnsAndLeavesPadAtZero) {
  headway::set_random_seed(11);
  TranslationModelOptions options = small_options();
  options.dropout = options.attention_dropout = options.activation_dropout = 0.05;
  const TranslationModel model(options);
  headway::AdamW optimizer(model, {.learning_rate = 3e-3, .weight_decay = 0.01});
  const Tensor source = ids({{5, 6, 7, 0}, {8, 9, 0, 19}}), lengths = Tensor::from<std::int64_t>({4, 3}, {2});
  const Tensor target = ids({{19, 7, 6, 5}, {19, 9, 8, 19}}), wanted = ids({{7, 6, 5, 0}, {9, 8, 0, 19}});
  double loss = 0.0;
  for (int step = 0; step < 150; ++step) {
    const Tensor logits = model.forward({.source = source, .source_lengths = lengths, .target = target}).logits;
    const Tensor value = headway::cross_entropy(logits, wanted, {.ignore_index = 19, .label_smoothing = 0.0});
    loss = value.item();
    model.zero_grad();
    value.backward();
    optimizer.step();
  }
  EXPECT_LT(loss, 0.1);
  for (const double value : model.state_dict().at("embedding.weight").select(0, 19).to_vector()) EXPECT_EQ(value, 0.0);
}

// What the output's matrix gives back: all rows but that of <pad>, whatever a row holds when the model is made.
TEST(TranslationModel, OnlyALoadedRowOfPadIsTrained) {
  const auto pad_gradient = [](const TranslationModel& model) {
    headway::sum(model.forward({.source = ids({{5, 6, 0}}), .target = ids({{19, 7}})}).logits).backward();
    return model.named_parameters().front().tensor.grad();
  };
  const TranslationModel model = make();
  const Tensor gradient = pad_gradient(model);
  EXPECT_EQ(gradient.select(0, 19).to_vector(), std::vector<double>(16, 0.0));
  EXPECT_NE(gradient.select(0, 11).to_vector(), std::vector<double>(16, 0.0));

  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("headway_pad_row_" + std::to_string(::getpid()));
  model.save(directory);
  EXPECT_EQ(pad_gradient(TranslationModel::load(directory)).select(0, 19).to_vector(), std::vector<double>(16, 0.0));
  model.state_dict().at("embedding.weight").detach().select(0, 19).fill(0.5);
  model.save(directory);
  const TranslationModel loaded = TranslationModel::load(directory);
  EXPECT_NE(pad_gradient(loaded).select(0, 19).to_vector(), std::vector<double>(16, 0.0));
  std::filesystem::remove_all(directory);
}

TEST(TranslationModel, ThreadsChangeNoBit) {
  const TranslationModel model = make();
  const auto run = [&](int threads) {
    headway::set_num_threads(threads);
    model.zero_grad();
    const Tensor logits =
        model.forward({.source = ids({{5, 6, 0}, {1, 2, 0}}), .target = ids({{19, 7}, {19, 1}})}).logits;
    headway::sum(headway::mul(logits, logits)).backward();
    return std::vector<Tensor>{logits, model.parameters().front().grad()};
  };
  const int before = headway::num_threads();
  const auto one = run(1), three = run(3);
  headway::set_num_threads(before);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], three[i])) << i;
}

TEST(TranslationModel, NamesWhatIsWrong) {
  const auto with = [](auto change) {
    TranslationModelOptions options = small_options();
    change(options);
    return message_of([&] { TranslationModel model(options); });
  };
  EXPECT_EQ(with([](auto& o) { o.vocab_size = 0; }), "TranslationModel: vocab_size is 0, expected 1 to 16777216");
  EXPECT_EQ(with([](auto& o) { o.decoder_attention_heads = 3; }),
            "TranslationModel: decoder_attention_heads is 3, which does not divide d_model, 16");
  EXPECT_EQ(with([](auto& o) { o.pad_token_id = 20; }), "TranslationModel: pad_token_id is 20, expected 0 to 19");
  EXPECT_EQ(with([](auto& o) { o.attention_dropout = 1.0; }),
            "TranslationModel: attention_dropout is 1, expected 0 or more and less than 1");
  const TranslationModel model = make();
  EXPECT_EQ(message_of([&] {
              model.encode(Tensor::zeros({2, 3}));
            }),
            "TranslationModel::encode: source is float32[2, 3], expected int64 ids [batch, length]");
  EXPECT_EQ(message_of([&] {
              model.forward({.source = ids({{1, 0}}), .target = ids({{19}, {19}})});
            }),
            "TranslationModel::forward: source is int64[1, 2] and target is int64[2, 1], expected one batch");
  EXPECT_EQ(message_of([&] {
              model.encode(ids({{1, 0}}), Tensor::from<std::int64_t>({3}, {1}));
            }),
            "TranslationModel::encode: source_lengths has 3 at 0, expected 0 to 2");
  EXPECT_EQ(message_of([&] {
              model.encode(ids({{1, 0}}), {1, 2});
            }),
            "TranslationModel::encode: source_lengths is int64[2], expected one integer or int64[1]");
  EXPECT_EQ(message_of([&] {
              model.encode(Tensor::zeros({1, 33}, headway::DType::int64));
            }),
            "TranslationModel: 33 tokens came, and the model has 32 positions");
  EXPECT_NE(message_of([&] { model.encode(ids({{1, 20}})); }).find("index 20"), std::string::npos);
}

}  // namespace
