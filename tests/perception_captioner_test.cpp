// ImageCaptioner on a tiny random model.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "headway/image_captioner.h"
#include "headway/random.h"
#include "support/files.h"
#include "support/message_of.h"

namespace {

using headway::Caption;
using headway::ImageCaptioner;
using headway::Picture;
using headway::PictureInput;
using headway::Tensor;
using headway::TextTokenizer;
using headway::TransformerModel;
using headway_test::message_of;

constexpr const char* kConfig = R"({
  "model_type": "vision-encoder-decoder", "architectures": ["VisionEncoderDecoderModel"], "is_encoder_decoder": true,
  "decoder_start_token_id": 0, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 0,
  "encoder": {"model_type": "vit", "image_size": 12, "patch_size": 4, "num_channels": 3, "hidden_size": 8,
              "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12, "initializer_range": 0.8},
  "decoder": {"model_type": "gpt2", "is_decoder": true, "add_cross_attention": true, "vocab_size": 8, "n_positions": 16,
              "n_embd": 8, "n_layer": 2, "n_head": 2, "n_inner": 12, "initializer_range": 0.8, "bos_token_id": 0,
              "eos_token_id": 1}})";

TextTokenizer words() {
  return TextTokenizer::from_json(R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
    "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "unk_token": "u",
              "vocab": {"s": 0, "e": 1, "u": 2, "a": 3, "b": 4, "c": 5, "d": 6, "f": 7}}})");
}

ImageCaptioner tiny(const PictureInput& input = {.height = 12, .width = 12}) {
  headway::set_random_seed(3);
  return ImageCaptioner(TransformerModel::from_config(kConfig), words(), input);
}

Picture random_picture(std::uint64_t seed, std::int64_t height = 12, std::int64_t width = 12) {
  return {.pixels = Tensor::uniform({height, width, 3}, 0.0, 1.0, seed), .notes = ""};
}

TEST(ImageCaptioner, ABatchEqualsSinglePictures) {
  const ImageCaptioner captioner = tiny();
  const std::vector<Picture> pictures = {random_picture(1), random_picture(2, 30, 17), random_picture(3, 5, 9)};
  for (const std::int64_t beams : {1, 3}) {
    const headway::GenerateOptions options = {.max_new_tokens = 8, .beams = beams};
    const std::vector<Caption> together = captioner.caption(pictures, options);
    ASSERT_EQ(together.size(), pictures.size());
    for (std::size_t i = 0; i < pictures.size(); ++i) {
      const Caption alone = captioner.caption(pictures[i], options);
      EXPECT_EQ(alone.best.front().tokens, together[i].best.front().tokens);
      EXPECT_EQ(alone.score(), together[i].score());
      EXPECT_EQ(alone.notes, together[i].notes);
    }
  }
}

// The packed steps against the modules: the most likely token after each prefix.
TEST(ImageCaptioner, WritesWhatTheModelFindsMostLikely) {
  const ImageCaptioner captioner = tiny();
  const Picture picture = random_picture(4);
  const headway::GeneratedText caption = captioner.caption(picture, {.max_new_tokens = 6, .ignore_end = true}).best[0];
  std::vector<std::int64_t> read = {0};
  const Tensor features = picture_tensor(picture, captioner.input()).unsqueeze(0);
  for (const std::int64_t token : caption.tokens) {
    const auto length = static_cast<std::int64_t>(read.size());
    std::vector<double> logits = captioner.model()
                                     .forward({.features = features, .target = Tensor::from(read, {1, length})})
                                     .logits.select(1, length - 1)
                                     .to_vector();
    logits[1] = -1e9;  // the end token, which is ignored
    EXPECT_EQ(std::max_element(logits.begin(), logits.end()) - logits.begin(), token);
    read.push_back(token);
  }
}

TEST(ImageCaptioner, MoreBeamsFindNoLessLikelyCaptions) {
  const ImageCaptioner captioner = tiny();
  const headway::GenerateOptions all = {.max_new_tokens = 3, .ignore_end = true, .beams = 64, .num_return = 3};
  const Caption wide = captioner.caption(random_picture(5), all);
  ASSERT_EQ(wide.best.size(), 3U);
  const Caption greedy = captioner.caption(random_picture(5), {.max_new_tokens = 3, .ignore_end = true});
  EXPECT_GE(wide.score() + 1e-6, greedy.score());
  EXPECT_GE(wide.best[0].score, wide.best[1].score);
}

TEST(ImageCaptioner, NotesWhatBecameOfThePicture) {
  const ImageCaptioner captioner = tiny();
  EXPECT_EQ(captioner.caption(random_picture(1, 24, 24)).notes, "");
  EXPECT_EQ(captioner.caption(random_picture(1, 12, 12)).notes, "");
  EXPECT_EQ(captioner.caption(random_picture(1, 1, 1)).notes, "enlarged from 1 x 1 to 12 x 12 pixels");
  EXPECT_EQ(captioner.caption(random_picture(1, 24, 30)).notes, "stretched from 30 x 24 to 12 x 12 pixels");
  const ImageCaptioner cutting = tiny({.shortest = 12, .crop_height = 12, .crop_width = 12});
  EXPECT_EQ(cutting.caption(random_picture(1, 24, 30)).notes, "cut from 30 x 24 pixels to the middle");
  EXPECT_EQ(cutting.caption({.pixels = random_picture(1).pixels, .notes = "alpha over white"}).notes,
            "alpha over white");
}

TEST(ImageCaptioner, TheAttentionOfACaption) {
  const ImageCaptioner captioner = tiny();
  const Picture picture = random_picture(6, 40, 20);
  const Caption caption = captioner.caption(picture, {.max_new_tokens = 5, .ignore_end = true});
  const headway::AttentionRecord record = captioner.attend(picture, caption.best.front());
  ASSERT_EQ(record.parts.size(), 3U);
  const headway::AttentionPart& cross = record.parts.back();
  EXPECT_EQ(cross.name, "cross");
  EXPECT_EQ(cross.layers.front().shape(), (headway::Shape{2, 5, 10}));  // the class token and 3 x 3 patches
  EXPECT_EQ(cross.key_medium.rows, 3);
  EXPECT_EQ(cross.keys[1], "row 1 column 1");
  EXPECT_EQ(record.target, caption.text());
  EXPECT_NE(attention_html(record).find("<html"), std::string::npos);
  EXPECT_NE(attention_svg(record).find("<svg"), std::string::npos);
}

TEST(ImageCaptioner, SaysWhatIsWrong) {
  const ImageCaptioner captioner = tiny();
  const auto about = [&](const Tensor& pixels) {
    return message_of([&] { captioner.caption(Picture{.pixels = pixels, .notes = ""}); });
  };
  EXPECT_NE(about({}).find("picture 0 is undefined, expected pixels [height, width, 3]"), std::string::npos);
  EXPECT_NE(about(Tensor::zeros({12, 12})).find("picture 0 is float32[12, 12]"), std::string::npos);
  EXPECT_NE(about(Tensor::zeros({12, 12, 4})).find("has 4 channels, and the model reads 3"), std::string::npos);
  EXPECT_NE(
      message_of([] { tiny({.height = 12, .width = 16}); }).find("of 16 x 12 pixels, and the model reads 12 x 12"),
      std::string::npos);
  EXPECT_NE(message_of([&] { captioner.attend(random_picture(1), {}); }).find("the caption has no tokens"),
            std::string::npos);
  const auto of_text = [] {
    return ImageCaptioner(TransformerModel::from_config(R"({"model_type": "gpt2", "vocab_size": 8, "n_embd": 4,
      "n_head": 1, "n_layer": 1, "n_positions": 4, "bos_token_id": 0, "eos_token_id": 1})"),
                          words(), {});
  };
  EXPECT_NE(message_of(of_text).find("family gpt2 does not make text of pictures or sound"), std::string::npos);
}

TEST(ImageCaptioner, DirectoriesAndFiles) {
  const headway_test::TemporaryDirectory directory;
  const ImageCaptioner captioner = tiny();
  captioner.model().save(directory.path());
  captioner.tokenizer()->save(directory.path());
  captioner.input().save(directory.path());
  const Picture picture = random_picture(7, 33, 21);
  write_png(directory / "picture.png", picture.pixels);
  const ImageCaptioner loaded(directory.path());
  EXPECT_EQ(loaded.input(), captioner.input());
  EXPECT_EQ(loaded.caption(picture).best.front().tokens, captioner.caption(picture).best.front().tokens);
  EXPECT_EQ(loaded.caption(directory / "picture.png").notes, "stretched from 21 x 33 to 12 x 12 pixels");

  std::ofstream(directory / "text.png") << "not a picture\n";
  EXPECT_NE(message_of([&] { loaded.caption(directory / "text.png"); }).find("text.png"), std::string::npos);
  std::filesystem::remove(directory / "preprocessor_config.json");
  EXPECT_NE(message_of([&] { ImageCaptioner{directory.path()}; }).find("preprocessor_config.json"), std::string::npos);
}

}  // namespace
