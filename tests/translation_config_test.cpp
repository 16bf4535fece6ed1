// The configuration of a training run: files, texts, ranges.
#include <gtest/gtest.h>

#include <set>

#include "headway/translation_training.h"
#include "support/files.h"
#include "support/message_of.h"
#include "translation/run_state.h"

namespace {

using headway::TranslationTrainingConfig;
using headway_test::contains;
using headway_test::message_of;
using headway_test::TemporaryDirectory;
using headway_test::write_bytes;

TranslationTrainingConfig loaded(const std::string& json) {
  const TemporaryDirectory directory;
  write_bytes(directory / "config.json", json);
  return TranslationTrainingConfig::load(directory / "config.json");
}

std::string load_error(const std::string& json) {
  return message_of([&] { loaded(json); });
}

std::string set_error(const std::string& field, const std::string& value) {
  return message_of([&] { TranslationTrainingConfig().set(field, value); });
}

std::string check_error(const std::function<void(TranslationTrainingConfig&)>& change) {
  TranslationTrainingConfig config;
  change(config);
  return message_of([&] { config.check(); });
}

TEST(TranslationConfig, DefaultsAreValid) { EXPECT_NO_THROW(TranslationTrainingConfig().check()); }

TEST(TranslationConfig, AFileHasSomeFieldsOrAll) {
  const TranslationTrainingConfig config = loaded(
      R"({"data": "pairs.tsv", // where they are
          "epochs": 3, "dropout": 0, "both_directions": false, "seed": 18446744073709551615, "pieces": "bpe"})");
  EXPECT_EQ(config.data, "pairs.tsv");
  EXPECT_EQ(config.epochs, 3);
  EXPECT_EQ(config.dropout, 0.0);
  EXPECT_FALSE(config.both_directions);
  EXPECT_EQ(config.seed, 18446744073709551615U);
  EXPECT_EQ(config.pieces, headway::PieceKind::bpe);
  EXPECT_EQ(config.width, TranslationTrainingConfig().width);

  EXPECT_EQ(loaded(config.to_json()).to_json(), config.to_json());
  EXPECT_EQ(loaded("{}").to_json(), TranslationTrainingConfig().to_json());
}

TEST(TranslationConfig, UnknownFieldsAreRefusedWithTheNearest) {
  EXPECT_PRED2(contains, load_error(R"({"epoch": 3})"),
               "config.json: there is no field \"epoch\"; the nearest is \"epochs\"");
  EXPECT_PRED2(contains, load_error(R"({"learning-rate": 3})"), "the nearest is \"learning_rate\"");
  EXPECT_PRED2(contains, set_error("droput", "0.1"), "there is no field \"droput\"; the nearest is \"dropout\"");
}

TEST(TranslationConfig, TypesAndRangesAreChecked) {
  EXPECT_PRED2(contains, load_error(R"({"epochs": "3"})"), "epochs is \"3\", expected a whole number");
  EXPECT_PRED2(contains, load_error(R"({"epochs": 2.5})"), "epochs is 2.5, expected a whole number");
  EXPECT_PRED2(contains, load_error(R"({"epochs": true})"), "epochs is true, expected a whole number");
  EXPECT_PRED2(contains, load_error(R"({"epochs": 0})"), "epochs is 0, expected 1 to");
  EXPECT_PRED2(contains, load_error(R"({"epochs": 18446744073709551615})"), "expected a whole number");
  EXPECT_PRED2(contains, load_error(R"({"checkpoint_every": 0})"), "checkpoint_every is 0, expected 1 or more");
  EXPECT_PRED2(contains, load_error(R"({"seed": -1})"), "seed is -1, expected a whole number of 0 or more");
  EXPECT_PRED2(contains, load_error(R"({"dropout": null})"), "dropout is null, expected a number");
  EXPECT_PRED2(contains, load_error(R"({"dropout": 1})"), "dropout is 1, expected 0 to 0.999");
  EXPECT_PRED2(contains, load_error(R"({"both_directions": 1})"), "both_directions is 1, expected true or false");
  EXPECT_PRED2(contains, load_error(R"({"data": ["a"]})"), "data is [\"a\"], expected a path as text");
  EXPECT_PRED2(contains, load_error(R"({"schedule": "cosin"})"), "schedule is \"cosin\", expected one of \"cosine\", ");
}

// Every value of every enumeration has a name that reads back as the same value; others are refused.
TEST(TranslationConfig, EnumerationsHaveNames) {
  using headway::Activation;
  using headway::DType;
  using headway::LearningRateSchedule;
  TranslationTrainingConfig config;
  config.pieces = headway::PieceKind::bpe;
  for (const LearningRateSchedule schedule : {LearningRateSchedule::cosine, LearningRateSchedule::inverse_sqrt,
                                              LearningRateSchedule::linear, LearningRateSchedule::constant}) {
    config.schedule = schedule;
    EXPECT_EQ(loaded(config.to_json()).schedule, schedule);
  }
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::silu}) {
    config.activation = activation;
    EXPECT_EQ(loaded(config.to_json()).activation, activation);
  }
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16}) {
    config.weights = dtype;
    EXPECT_EQ(loaded(config.to_json()).weights, dtype);
  }
  config.precision = DType::bfloat16;
  const TranslationTrainingConfig read = loaded(config.to_json());
  EXPECT_EQ(read.precision, DType::bfloat16);
  EXPECT_EQ(read.pieces, headway::PieceKind::bpe);
  for (const char* line : {R"("pieces": "bpe")", R"("activation": "silu")", R"("schedule": "constant")",
                           R"("precision": "bfloat16")", R"("weights": "bfloat16")"}) {
    EXPECT_PRED2(contains, config.to_json(), line);
  }
  EXPECT_PRED2(contains, check_error([](auto& changed) { changed.precision = DType::float16; }),
               "expected one of \"float32\", \"bfloat16\"");
  EXPECT_PRED2(contains, check_error([](auto& changed) { changed.activation = Activation::none; }),
               "expected one of \"relu\", \"gelu\", \"silu\"");
  EXPECT_PRED2(contains, load_error(R"({"pieces": 1})"), "pieces is 1, expected a text");
}

TEST(TranslationConfig, TheOldNameOfTheWidthIsRead) {
  EXPECT_EQ(loaded(R"({"d_model": 64})").width, 64);
  EXPECT_FALSE(contains(loaded(R"({"d_model": 64})").to_json(), "d_model"));
  TranslationTrainingConfig config;
  config.set("d_model", "32");
  EXPECT_EQ(config.width, 32);
}

TEST(TranslationConfig, DropoutHasThreePlaces) {
  const TranslationTrainingConfig config = loaded(R"({"attention_dropout": 0.25, "activation_dropout": 0.5})");
  EXPECT_EQ(config.attention_dropout, 0.25);
  EXPECT_EQ(config.activation_dropout, 0.5);
  EXPECT_EQ(TranslationTrainingConfig().attention_dropout, 0.0);
  EXPECT_EQ(TranslationTrainingConfig().activation_dropout, 0.0);
  EXPECT_PRED2(contains, set_error("attention_dropout", "1"), "attention_dropout is 1, expected 0 to 0.999");
}

TEST(TranslationConfig, TheDeviceMustBeThere) {
  EXPECT_EQ(loaded(R"({"device": "cpu"})").device, "cpu");
  EXPECT_PRED2(contains, check_error([](TranslationTrainingConfig& config) { config.device = "gpu"; }),
               "device is \"gpu\", which cannot be used: ");
  const std::string after_the_last = "cuda:" + std::to_string(headway::cuda_device_count());
  EXPECT_PRED2(contains, check_error([&](TranslationTrainingConfig& config) { config.device = after_the_last; }),
               "device is \"" + after_the_last + "\", which cannot be used: ");
}

TEST(TranslationConfig, FilesThatAreNoObjectAreRefused) {
  EXPECT_PRED2(contains, load_error("epochs = 3"), "config.json: is not JSON");
  EXPECT_PRED2(contains, load_error("[1]"), "expected a JSON object");
  EXPECT_PRED2(contains, load_error(""), "is not JSON");
  EXPECT_PRED2(contains, load_error(R"({"epochs": 3, "epochs": 4})"), "has \"epochs\" twice");
  EXPECT_PRED2(contains, message_of([] { TranslationTrainingConfig::load("/nowhere/config.json"); }),
               "/nowhere/config.json");
}

// Configs and the state inside a checkpoint are read with the limits of all JSON.
TEST(TranslationConfig, DeepJsonIsRefused) {
  const std::string deep(100'000, '[');
  EXPECT_PRED2(contains, load_error(deep), "config.json: is not JSON at byte 65: arrays and objects are nested deeper");
  EXPECT_PRED2(contains, message_of([&] { headway::internal::RunState::from_json(deep); }),
               "is not JSON at byte 65: arrays and objects are nested deeper than 64");
}

TEST(TranslationConfig, FieldsAreSetFromText) {
  TranslationTrainingConfig config;
  config.set("epochs", "12");
  config.set("learning_rate", "5e-4");
  config.set("both_directions", "false");
  config.set("output", "some where");
  config.set("schedule", "linear");
  EXPECT_EQ(config.epochs, 12);
  EXPECT_EQ(config.learning_rate, 5e-4);
  EXPECT_FALSE(config.both_directions);
  EXPECT_EQ(config.output, "some where");
  EXPECT_EQ(config.schedule, headway::LearningRateSchedule::linear);

  EXPECT_PRED2(contains, set_error("epochs", "3x"), "epochs is \"3x\", expected a whole number");
  EXPECT_PRED2(contains, set_error("epochs", ""), "expected a whole number");
  EXPECT_PRED2(contains, set_error("dropout", "nan"), "dropout is nan, expected 0 to");
  EXPECT_PRED2(contains, set_error("both_directions", "maybe"), "expected true or false");
  EXPECT_PRED2(contains, set_error("weights", "int8"), "expected one of \"float32\"");
  EXPECT_PRED2(contains, set_error("precision", "float16"), "expected one of \"float32\", \"bfloat16\"");
  // A value that is refused leaves the old one.
  EXPECT_THROW(config.set("epochs", "-1"), headway::Error);
  EXPECT_EQ(config.epochs, 12);
}

TEST(TranslationConfig, FieldsThatDependOnEachOther) {
  EXPECT_PRED2(contains, check_error([](auto& config) { config.heads = 7; }), "heads is 7, which does not divide");
  EXPECT_PRED2(contains, check_error([](auto& config) { config.target_language = "eng"; }), "are both \"eng\"");
  EXPECT_PRED2(contains, check_error([](auto& config) { config.target_language = "<<"; }), "target_language is \"<<\"");
  EXPECT_PRED2(contains, check_error([](auto& config) { config.source_language = ""; }), "source_language is \"\"");
  EXPECT_PRED2(contains, check_error([](auto& config) { config.width = 9, config.heads = 3; }), "an even number");
  EXPECT_PRED2(contains, check_error([](auto& config) { config.output.clear(); }), "output is empty");
  EXPECT_PRED2(contains, check_error([](auto& config) { config.epochs = 0; }), "epochs is 0");
}

TEST(TranslationConfig, EveryFieldIsListedOnce) {
  std::set<std::string> names;
  for (const headway::ConfigField& field : headway::translation_training_fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    EXPECT_FALSE(field.help.empty()) << field.name;
    TranslationTrainingConfig config;
    EXPECT_NO_THROW(config.set(field.name, field.default_value)) << field.name;
    EXPECT_EQ(config.to_json(), TranslationTrainingConfig().to_json()) << field.name;
  }
  EXPECT_EQ(names.size(), 41U);
}

}  // namespace
