#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/picture_classifier.h"
#include "headway/random.h"
#include "support/files.h"
#include "support/message_of.h"

namespace {

using namespace headway_test;
using headway::Picture;
using headway::PictureClassifier;
using headway::PictureInput;
using headway::Tensor;
using headway::TransformerModel;

const PictureInput kInput = {.channels = 1, .height = 8, .width = 8, .mean = {0.5}, .deviation = {0.5}};

// A ViT of 8 by 8 grey pixels with three labels; its logits differ enough for one label to be the clear best.
TransformerModel small_vit(const std::string& more = {},
                           const std::string& architecture = "ViTForImageClassification") {
  headway::set_random_seed(3);
  const TransformerModel model = TransformerModel::from_config(R"({"model_type": "vit", "architectures": [")" +
                                                               architecture + R"("], "image_size": 8, "patch_size": 4,
      "num_channels": 1, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
      "initializer_range": 0.5, "id2label": {"0": "cat", "1": "dog", "2": "owl"})" +
                                                               more + "}");
  model.eval();
  return model;
}

// Grey pictures that differ from one another, of values that 8 bits hold.
Picture grey(std::uint64_t seed, std::int64_t height = 8, std::int64_t width = 8) {
  const Tensor pixels = Tensor::uniform({height, width, 1}, 0.0, 255.0, seed);
  float* const values = pixels.data<float>();
  for (std::int64_t i = 0; i < pixels.element_count(); ++i) values[i] = std::round(values[i]) / 255.0F;
  return {.pixels = pixels, .notes = ""};
}

TEST(PictureClassifier, ScoresAreTheSoftmaxOfTheModelsLogits) {
  const TransformerModel model = small_vit();
  const PictureClassifier classifier(model, kInput);
  EXPECT_EQ(classifier.labels(), (std::vector<std::string>{"cat", "dog", "owl"}));
  EXPECT_EQ(classifier.input(), kInput);
  const Picture picture = grey(1);
  const headway::NoGradGuard guard;
  const Tensor pixels = (picture.pixels * 2.0 - 1.0).reshape({1, 1, 8, 8});
  const Tensor logits = model.forward({.features = pixels}).logits;
  const Tensor given = classifier.logits({picture});
  ASSERT_TRUE((given.shape() == headway::Shape{1, 3}));
  const auto found = classifier.classify(std::vector<Picture>{picture}).front();
  ASSERT_EQ(found.labels.size(), 3u);
  EXPECT_EQ(found.notes, "");
  double sum = 0.0;
  for (const headway::LabelScore& label : found.labels) {
    EXPECT_NEAR(label.score, softmax(logits).at({0, label.id}), 1e-6);
    EXPECT_NEAR(given.at({0, label.id}), logits.at({0, label.id}), 1e-5);
    EXPECT_EQ(label.label, classifier.labels()[static_cast<std::size_t>(label.id)]);
    sum += label.score;
  }
  EXPECT_NEAR(sum, 1.0, 1e-6);
  EXPECT_GE(found.score(), found.labels[1].score);
  EXPECT_EQ(classifier.classify({picture}, 2).front().labels.size(), 2u);
  EXPECT_TRUE(classifier.classify(std::vector<Picture>{}).empty());
  EXPECT_TRUE((classifier.logits({}).shape() == headway::Shape{0, 3}));
}

TEST(PictureClassifier, ManyPicturesAreThatOfEach) {
  const PictureClassifier classifier(small_vit(), kInput);
  std::vector<Picture> pictures;
  for (std::uint64_t i = 0; i < 70; ++i) pictures.push_back(grey(i));
  const auto together = classifier.classify(pictures);
  ASSERT_EQ(together.size(), pictures.size());
  for (const std::size_t i : {0, 63, 64, 69}) {
    const auto alone = classifier.classify(std::vector<Picture>{pictures[i]}).front();
    EXPECT_EQ(together[i].label(), alone.label());
    EXPECT_NEAR(together[i].score(), alone.score(), 1e-6);
  }
}

TEST(PictureClassifier, FilesOfADirectory) {
  const TemporaryDirectory directory;
  small_vit().save(directory.path());
  kInput.save(directory.path());
  const PictureClassifier classifier(directory.path());
  const Picture small = grey(5), large = grey(6, 20, 30);
  headway::write_png(directory / "small.png", small.pixels);
  headway::write_png(directory / "large.png", large.pixels);
  headway::write_png(directory / "colours.png", small.pixels.expand({8, 8, 3}).contiguous());
  const auto found =
      classifier.classify_files({directory / "small.png", directory / "large.png", directory / "colours.png"});
  EXPECT_EQ(found[0].notes, "");
  EXPECT_TRUE(contains(found[1].notes, "resized from 30 x 20 to 8 x 8")) << found[1].notes;
  EXPECT_EQ(found[2].label(), found[0].label());
  EXPECT_NEAR(found[2].score(), found[0].score(), 1e-2);  // grey again, in 8 bits

  write_bytes(directory / "text.png", "this is no picture");
  write_bytes(directory / "half.png", read_bytes(directory / "large.png").substr(0, 200));
  for (const char* name : {"text.png", "half.png", "missing.png"}) {
    const std::string message = message_of([&] { classifier.classify_files({directory / name}); });
    EXPECT_TRUE(message.starts_with((directory / name).string())) << message;
  }
  std::filesystem::remove(directory / "preprocessor_config.json");
  EXPECT_TRUE(contains(message_of([&] { PictureClassifier{directory.path()}; }), "preprocessor_config.json"));
}

TEST(PictureClassifier, ModelsAndInputsThatDoNotGoTogether) {
  const auto message = [](const TransformerModel& model, const PictureInput& input) {
    return message_of([&] { PictureClassifier(model, input); });
  };
  PictureInput other = kInput;
  other.height = 16;
  EXPECT_PRED2(contains, message(small_vit(), other), "8 x 16 pixels, and the model reads 8 x 8");
  other = {.height = 8, .width = 8};
  EXPECT_PRED2(contains, message(small_vit(), other), "gives 3 channels, and the model reads 1");
  EXPECT_PRED2(contains, message(small_vit("", "ViTModel"), kInput), "ForImageClassification");
  const TransformerModel text = TransformerModel::from_config(
      R"({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 10,
      "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8})");
  EXPECT_PRED2(contains, message(text, kInput), "the bert model does not read pictures");

  const PictureClassifier classifier(small_vit(), kInput);
  EXPECT_PRED2(contains, message_of([&] { classifier.classify({grey(1)}, -1); }), "most is -1");
  const Picture colours = {.pixels = Tensor::zeros({8, 8, 3}), .notes = ""};
  EXPECT_PRED2(contains, message_of([&] { classifier.classify({colours}); }), "3");
}

TEST(PictureClassifier, ProblemTypesOfTheConfig) {
  const auto scores_of = [](const std::string& type) {
    const PictureClassifier classifier(small_vit(R"(, "problem_type": ")" + type + R"(")"), kInput);
    return classifier.classify({grey(2)}).front().labels;
  };
  const PictureClassifier plain(small_vit(), kInput);
  const Tensor logits = plain.logits({grey(2)});
  for (const headway::LabelScore& label : scores_of("multi_label_classification")) {
    EXPECT_NEAR(label.score, 1.0 / (1.0 + std::exp(-logits.at({0, label.id}))), 1e-6);
  }
  for (const headway::LabelScore& label : scores_of("regression")) {
    EXPECT_NEAR(label.score, logits.at({0, label.id}), 1e-6);
  }
}

}  // namespace
