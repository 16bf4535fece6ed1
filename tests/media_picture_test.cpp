// Pictures: files of every kind and broken ones, other sizes, the tensors that models read.
#include <gtest/gtest.h>
#include <png.h>

#include <cstdio>
// jpeglib.h needs the FILE of cstdio.
#include <jpeglib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "headway/error.h"
#include "headway/image.h"
#include "media/picture_file.h"
#include "support/files.h"
#include "support/message_of.h"
#include "support/thread_count.h"

namespace {

using headway::parse_picture;
using headway::Picture;
using headway::PictureInput;
using headway::Resampling;
using headway::Tensor;
using headway_test::contains;
using headway_test::message_of;
using Bytes = std::vector<unsigned char>;

// A PNG file of rows as they lie in it; `prepare` sets a palette or a transparent colour.
std::string png(int width, int height, int depth, int colours, const Bytes& rows, int interlace = PNG_INTERLACE_NONE,
                const std::function<void(png_structp, png_infop)>& prepare = {}) {
  std::string bytes;
  png_structp out = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(out);
  png_set_write_fn(
      out, &bytes,
      [](png_structp file, png_bytep from, std::size_t count) {
        static_cast<std::string*>(png_get_io_ptr(file))->append(reinterpret_cast<char*>(from), count);
      },
      [](png_structp) {});
  png_set_IHDR(out, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), depth, colours, interlace,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (prepare) prepare(out, info);
  png_write_info(out, info);
  Bytes data = rows;
  std::vector<png_bytep> pointers;
  const std::size_t row_bytes = rows.size() / static_cast<std::size_t>(height);
  for (int row = 0; row < height; ++row) pointers.push_back(data.data() + static_cast<std::size_t>(row) * row_bytes);
  png_write_image(out, pointers.data());
  png_write_end(out, nullptr);
  png_destroy_write_struct(&out, &info);
  return bytes;
}

// A JPEG file of pixels [height, width, channels of `colours`].
std::string jpeg(int width, int height, J_COLOR_SPACE colours, const Bytes& pixels, bool progressive = false,
                 const std::string& exif = {}) {
  jpeg_compress_struct out = {};
  jpeg_error_mgr errors = {};
  out.err = jpeg_std_error(&errors);
  jpeg_create_compress(&out);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&out, &memory, &size);
  out.image_width = static_cast<JDIMENSION>(width);
  out.image_height = static_cast<JDIMENSION>(height);
  out.input_components = colours == JCS_GRAYSCALE ? 1 : colours == JCS_CMYK ? 4 : 3;
  out.in_color_space = colours;
  jpeg_set_defaults(&out);
  jpeg_set_quality(&out, 95, TRUE);
  if (progressive) jpeg_simple_progression(&out);
  jpeg_start_compress(&out, TRUE);
  if (!exif.empty()) {
    const std::string data = std::string("Exif\0\0", 6) + exif;
    jpeg_write_marker(&out, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(data.data()),
                      static_cast<unsigned>(data.size()));
  }
  while (out.next_scanline < out.image_height) {
    auto* row = const_cast<unsigned char*>(pixels.data()) +
                out.next_scanline * static_cast<std::size_t>(width * out.input_components);
    jpeg_write_scanlines(&out, &row, 1);
  }
  jpeg_finish_compress(&out);
  jpeg_destroy_compress(&out);
  std::string bytes(reinterpret_cast<char*>(memory), size);
  std::free(memory);
  return bytes;
}

std::vector<double> levels(const Picture& picture) {
  std::vector<double> values = picture.pixels.to_vector();
  for (double& value : values) value *= 255.0;
  return values;
}

void expect_near(const std::vector<double>& ours, const std::vector<double>& expected, double most) {
  ASSERT_EQ(ours.size(), expected.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], expected[i], most) << i;
}

TEST(Png, EveryKindIsRead) {
  expect_near(levels(parse_picture(png(2, 1, 8, PNG_COLOR_TYPE_RGB, {1, 2, 3, 250, 128, 0}), "rgb")),
              {1, 2, 3, 250, 128, 0}, 1e-4);
  expect_near(levels(parse_picture(png(2, 1, 8, PNG_COLOR_TYPE_GRAY, {7, 9}), "grey")), {7, 7, 7, 9, 9, 9}, 1e-4);
  expect_near(levels(parse_picture(png(9, 1, 1, PNG_COLOR_TYPE_GRAY, {0b10100000, 0b10000000}), "bits", 1)),
              {255, 0, 255, 0, 0, 0, 0, 0, 255}, 1e-4);
  expect_near(levels(parse_picture(png(2, 1, 4, PNG_COLOR_TYPE_GRAY, {0x3f}), "nibbles", 1)), {51, 255}, 1e-4);
  expect_near(
      parse_picture(png(1, 1, 16, PNG_COLOR_TYPE_RGB, {0x12, 0x34, 0, 0, 0xff, 0xff}), "deep").pixels.to_vector(),
      {0x1234 / 65535.0, 0, 1}, 1e-7);
  const auto palette = [](png_structp file, png_infop info) {
    const png_color colours[] = {{10, 20, 30}, {200, 100, 50}};
    png_set_PLTE(file, info, colours, 2);
    const png_byte alpha[] = {255, 0};
    png_set_tRNS(file, info, alpha, 2, nullptr);
  };
  const std::string indexed = png(2, 1, 2, PNG_COLOR_TYPE_PALETTE, {0b00010000}, PNG_INTERLACE_NONE, palette);
  const Picture over_white = parse_picture(indexed, "palette");
  expect_near(levels(over_white), {10, 20, 30, 255, 255, 255}, 1e-4);
  EXPECT_EQ(over_white.notes, "alpha over white");
  expect_near(levels(parse_picture(indexed, "palette", 4)), {10, 20, 30, 255, 200, 100, 50, 0}, 1e-4);
  EXPECT_EQ(parse_picture(indexed, "palette", 4).notes, "");
}

TEST(Png, AlphaColoursAndInterlacedRows) {
  const std::string half = png(2, 1, 8, PNG_COLOR_TYPE_RGBA, {100, 0, 255, 51, 0, 0, 0, 255});
  expect_near(levels(parse_picture(half, "rgba")), {224, 204, 255, 0, 0, 0}, 1e-3);
  expect_near(levels(parse_picture(half, "rgba", 1)), {0.2 * 41 + 0.8 * 255.0 + 0.2 * 18, 0}, 0.5);
  const Picture grey = parse_picture(png(1, 2, 8, PNG_COLOR_TYPE_GRAY_ALPHA, {80, 255, 80, 0}), "grey and alpha", 4);
  expect_near(levels(grey), {80, 80, 80, 255, 80, 80, 80, 0}, 1e-4);
  const Picture luma = parse_picture(png(2, 1, 8, PNG_COLOR_TYPE_RGB, {255, 0, 0, 9, 9, 9}), "luma", 1);
  expect_near(levels(luma), {76, 9}, 1e-4);
  EXPECT_EQ(luma.notes, "colours made grey");
  EXPECT_EQ(parse_picture(png(1, 1, 8, PNG_COLOR_TYPE_RGB, {9, 9, 9}), "grey", 1).notes, "");
  Bytes rows;
  for (int i = 0; i < 13 * 11; ++i) rows.push_back(static_cast<unsigned char>(i));
  EXPECT_EQ(parse_picture(png(13, 11, 8, PNG_COLOR_TYPE_GRAY, rows, PNG_INTERLACE_ADAM7), "rows").pixels.to_vector(),
            parse_picture(png(13, 11, 8, PNG_COLOR_TYPE_GRAY, rows), "rows").pixels.to_vector());
  const auto transparent_grey = [](png_structp file, png_infop info) {
    png_color_16 colour = {};
    colour.gray = 5;
    png_set_tRNS(file, info, nullptr, 0, &colour);
  };
  expect_near(
      levels(parse_picture(png(2, 1, 8, PNG_COLOR_TYPE_GRAY, {5, 6}, PNG_INTERLACE_NONE, transparent_grey), "t", 1)),
      {255, 6}, 1e-4);
}

TEST(Jpeg, EveryKindIsRead) {
  Bytes rgb, grey, cmyk;
  std::vector<double> expected, expected_grey, expected_inks;
  for (int i = 0; i < 24 * 16; ++i) {
    const int row = i / 24;
    const auto red = static_cast<unsigned char>(40 + 8 * row);
    rgb.insert(rgb.end(), {red, 90, 200});
    grey.push_back(red);
    cmyk.insert(cmyk.end(), {red, 0, 255, 51});
    expected.insert(expected.end(), {1.0 * red, 90, 200});
    expected_grey.push_back(red);
    expected_inks.insert(expected_inks.end(), {(255.0 - red) * 0.8, 204, 0});
  }
  expect_near(levels(parse_picture(jpeg(24, 16, JCS_RGB, rgb), "rgb")), expected, 4);
  expect_near(levels(parse_picture(jpeg(24, 16, JCS_RGB, rgb, true), "progressive")), expected, 4);
  expect_near(levels(parse_picture(jpeg(24, 16, JCS_GRAYSCALE, grey), "grey", 1)), expected_grey, 3);
  const Picture inks = parse_picture(jpeg(24, 16, JCS_CMYK, cmyk), "inks");
  EXPECT_EQ(inks.notes, "inks made RGB without their colour profile");
  // Files with Adobe's marker, as libjpeg writes them, store the inks backwards.
  for (std::size_t i = 0; i < cmyk.size(); ++i) cmyk[i] = static_cast<unsigned char>(255 - cmyk[i]);
  expect_near(levels(parse_picture(jpeg(24, 16, JCS_CMYK, cmyk), "inks")), expected_inks, 4);
}

// Exif data with an orientation, in either order of bytes.
std::string exif(int orientation, bool low_first) {
  const char number = static_cast<char>(orientation);
  if (low_first) {
    return std::string("II*\0\10\0\0\0\1\0\x12\1\3\0\1\0\0\0", 18) + std::string({number, 0, 0, 0, 0, 0, 0, 0});
  }
  return std::string("MM\0*\0\0\0\10\0\1\1\x12\0\3\0\0\0\1", 18) + std::string({0, number, 0, 0, 0, 0, 0, 0});
}

TEST(Jpeg, OrientationTurnsThePicture) {
  // Quarters of 16 x 16 in a row of two and a half: dark and bright, so that each orientation is told from the others.
  Bytes pixels;
  for (int row = 0; row < 32; ++row) {
    for (int column = 0; column < 64; ++column)
      pixels.push_back(row < 16 ? (column < 32 ? 20 : 90) : (column < 32 ? 160 : 230));
  }
  // The corners after turning, row by row: 1 is upper left, 2 upper right, 3 lower left, 4 lower right of the file.
  const std::vector<std::vector<double>> corners = {{20, 90, 160, 230}, {90, 20, 230, 160}, {230, 160, 90, 20},
                                                    {160, 230, 20, 90}, {20, 160, 90, 230}, {160, 20, 230, 90},
                                                    {230, 90, 160, 20}, {90, 230, 20, 160}};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    for (const bool low_first : {false, true}) {
      const Picture picture =
          parse_picture(jpeg(64, 32, JCS_GRAYSCALE, pixels, false, exif(orientation, low_first)), "turned", 1);
      const std::int64_t height = picture.pixels.size(0), width = picture.pixels.size(1);
      EXPECT_EQ(height, orientation < 5 ? 32 : 64);
      const Tensor& p = picture.pixels;
      expect_near({255 * p.at({0, 0, 0}), 255 * p.at({0, width - 1, 0}), 255 * p.at({height - 1, 0, 0}),
                   255 * p.at({height - 1, width - 1, 0})},
                  corners[static_cast<std::size_t>(orientation - 1)], 4);
      EXPECT_EQ(picture.notes.empty(), orientation == 1);
    }
  }
  using headway::internal::exif_orientation;
  for (std::size_t size = 0; size < 18; ++size) EXPECT_EQ(exif_orientation(exif(6, true).substr(0, size)), 1) << size;
  EXPECT_EQ(exif_orientation(exif(9, true)), 1);
  EXPECT_EQ(exif_orientation("II*\0\xff\xff\xff\xff"), 1);
}

TEST(Pictures, WhatIsNoneIsRefused) {
  const headway_test::TemporaryDirectory directory;
  const auto message = [&](const std::string& name, const std::string& bytes) {
    headway_test::write_bytes(directory / name, bytes);
    const std::string text = message_of([&] { headway::read_picture(directory / name); });
    EXPECT_TRUE(text.starts_with((directory / name).string() + ": ")) << text;
    return text.substr((directory / name).string().size() + 2);
  };
  EXPECT_EQ(message("text.png", "a letter"), "not a picture: it is text, \"a letter\"; PNG and JPEG can be read");
  EXPECT_EQ(message("gif.png", std::string("GIF89a\1\0\xff", 9)),
            "not a picture: it begins with the bytes 47 49 46 38 39 61 01 00; PNG and JPEG can be read");
  EXPECT_EQ(message("empty.png", ""), "an empty file, not a picture");
  const std::string good = png(40, 30, 8, PNG_COLOR_TYPE_RGB, Bytes(40 * 30 * 3, 77));
  EXPECT_EQ(message("short.png", good.substr(0, good.size() / 2)), "a broken PNG file: the file ends early");
  std::string huge = good;  // 2^31 - 1 x 2^31 - 1, with a checksum that does not fit
  huge.replace(16, 8, "\x7f\xff\xff\xff\x7f\xff\xff\xff");
  EXPECT_PRED2(contains, message("huge.png", huge), "a broken PNG file");
  EXPECT_PRED2(contains, message("bomb.png", png(20000, 1, 1, PNG_COLOR_TYPE_GRAY, Bytes(2500, 0)).substr(0, 60)),
               "a broken PNG file");
  Bytes noise;
  for (unsigned i = 0; i < 40 * 30 * 3; ++i) noise.push_back(static_cast<unsigned char>(i * i * 7 + i / 5));
  const std::string photo = jpeg(40, 30, JCS_RGB, noise);
  EXPECT_PRED2(contains, message("short.jpg", photo.substr(0, photo.size() - 40)), "a broken JPEG file: Premature end");
  EXPECT_PRED2(contains, message("start.jpg", photo.substr(0, 100)), "a broken JPEG file");
  std::string large = photo;
  const std::size_t frame = large.find("\xff\xc0");
  large.replace(frame + 5, 4, "\xfd\xe8\xfd\xe8");
  EXPECT_PRED2(contains, message("large.jpg", large), "65000 x 65000 pixels are more than");
  large.replace(frame + 5, 4, std::string("\x20\x00\x30\x00", 4));
  EXPECT_PRED2(contains, message("large.jpg", large), "bytes cannot hold 12288 x 8192 pixels");
  EXPECT_EQ(message_of([&] { headway::read_picture(directory / "missing.png"); }),
            (directory / "missing.png").string() + ": no such file");
  EXPECT_EQ(message_of([&] { parse_picture(good, "x", 2); }), "x: channels is 2, expected 1, 3 or 4");
}

TEST(Pictures, EveryBeginningAndEveryDamageIsReadOrRefused) {
  Bytes noise;
  for (unsigned i = 0; i < 30 * 20 * 3; ++i) noise.push_back(static_cast<unsigned char>(i * i * 7 + i / 5));
  for (const std::string& bytes : {png(30, 20, 8, PNG_COLOR_TYPE_RGB, noise, PNG_INTERLACE_ADAM7),
                                   jpeg(30, 20, JCS_RGB, noise), jpeg(30, 20, JCS_RGB, noise, true, exif(6, true))}) {
    const auto try_to_read = [](const std::string& part) {
      try {
        EXPECT_GT(parse_picture(part, "part").pixels.element_count(), 0);
      } catch (const headway::Error& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with("part: ")) << error.what();
      }
    };
    for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 80) try_to_read(bytes.substr(0, size));
    for (std::size_t place = 0; place < bytes.size(); place += 1 + bytes.size() / 80) {
      std::string damaged = bytes;
      damaged[place] = static_cast<char>(damaged[place] ^ 0x55);
      try_to_read(damaged);
    }
  }
}

TEST(Pictures, WrittenOnesAreReadBack) {
  const headway_test::TemporaryDirectory directory;
  for (const std::int64_t channels : {1, 3, 4}) {
    const Tensor pixels = Tensor::uniform({7, 5, channels}, 0.0, 1.0, 3);
    headway::write_png(directory / "out.png", pixels);
    const Picture picture = headway::read_picture(directory / "out.png", channels);
    expect_near(picture.pixels.to_vector(), pixels.to_vector(), 0.501 / 255);
  }
  expect_near(parse_picture(headway::encode_png(Tensor::from({-1.0f, 2.0f}, {1, 2, 1})), "x", 1).pixels.to_vector(),
              {0, 1}, 0);
  EXPECT_EQ(directory.listing(), std::vector<std::string>{"out.png"});
  EXPECT_PRED2(contains, message_of([] { headway::encode_png(Tensor::zeros({2, 2})); }), "not float32[2, 2]");
  EXPECT_PRED2(contains, message_of([] {
                 headway::encode_png(Tensor::zeros({2, 2, 2}));
               }),
               "[height, width, 1, 3 or 4]");
  const Tensor nan = Tensor::full({1, 1, 1}, std::numeric_limits<double>::quiet_NaN());
  EXPECT_PRED2(contains, message_of([&] { headway::encode_png(nan); }), "not a number");
}

TEST(Resizing, IsTheMeanOfWhatIsCovered) {
  const Tensor pixels = Tensor::from({0.0f, 0.2f, 0.4f, 1.0f}, {1, 4, 1});
  // Triangles of twice the width: (3 * 0 + 3 * 0.2 + 0.4) / 7.
  expect_near(headway::resize(pixels, 1, 2).to_vector(), {1.0 / 7, (0.2 + 3 * 0.4 + 3 * 1.0) / 7}, 1e-6);
  expect_near(headway::resize(pixels, 1, 2, Resampling::nearest).to_vector(), {0.2, 1.0}, 1e-6);
  expect_near(headway::resize(pixels, 2, 4).to_vector(), {0, 0.2, 0.4, 1, 0, 0.2, 0.4, 1}, 1e-6);
  EXPECT_EQ(headway::resize(pixels, 3, 9, Resampling::bicubic).shape(), headway::Shape({3, 9, 1}));
  const Tensor constant = headway::resize(Tensor::full({5, 7, 3}, 0.3), 11, 3, Resampling::bicubic);
  for (const double value : constant.to_vector()) EXPECT_NEAR(value, 0.3, 1e-6);
  // What cannot be seen has no colour: the mean of opaque red and clear blue is half-transparent red.
  const Tensor rgba = Tensor::from({1.0f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f, 1.0f, 0.0f}, {1, 2, 4});
  expect_near(headway::resize(rgba, 1, 1).to_vector(), {1, 0, 0, 0.5}, 1e-6);
  EXPECT_PRED2(contains, message_of([&] { headway::resize(pixels, 0, 2); }), "the new size is 2 x 0");
  EXPECT_PRED2(contains, message_of([&] { headway::resize(Tensor::zeros({3}), 1, 1); }), "not float32[3]");
  EXPECT_PRED2(contains, message_of([&] { headway::resize(pixels, 1 << 20, 1 << 20); }), "expected 1 to");
  const headway_test::ThreadCount threads(1);
  const Tensor noise = Tensor::uniform({60, 50, 3}, 0, 1, 5);
  const std::vector<double> alone = headway::resize(noise, 31, 77, Resampling::bicubic).to_vector();
  headway::set_num_threads(3);
  EXPECT_EQ(headway::resize(noise, 31, 77, Resampling::bicubic).to_vector(), alone);
}

TEST(PictureTensor, IsResizedCutAndNormalised) {
  const Picture picture = {.pixels = Tensor::from({0.0f, 1.0f, 51.0f / 255, 1.0f, 0.0f, 0.0f}, {1, 2, 3})};
  PictureInput input = {.height = 0, .width = 0, .mean = {0.5, 0.5, 0.0}, .deviation = {0.5, 0.25, 1.0}};
  const Tensor plain = headway::picture_tensor(picture, input);
  EXPECT_EQ(plain.shape(), headway::Shape({3, 1, 2}));
  expect_near(plain.to_vector(), {-1, 1, 2, -2, 0.2, 0}, 1e-6);
  input.crop_height = 2;
  input.crop_width = 3;  // black before the pixels
  expect_near(headway::picture_tensor(picture, input).to_vector(),
              {-1, -1, -1, -1, -1, 1, -2, -2, -2, -2, 2, -2, 0, 0, 0, 0, 0.2, 0}, 1e-6);
  input = {.height = 0, .width = 0, .shortest = 8, .mean = {}, .deviation = {}};
  EXPECT_EQ(headway::picture_tensor(picture, input).shape(), headway::Shape({3, 8, 16}));
  EXPECT_EQ(headway::picture_tensor(picture).shape(), headway::Shape({3, 224, 224}));
  const Picture grey = {.pixels = Tensor::zeros({4, 4, 1})};
  EXPECT_EQ(message_of([&] { headway::picture_tensor(grey); }),
            "picture_tensor: pixels must be [height, width, 3], not float32[4, 4, 1]");
  EXPECT_PRED2(contains, message_of([&] { headway::picture_tensor(picture, {.mean = {0.5}, .deviation = {0.5}}); }),
               "mean has 1 numbers for 3 channels");
  EXPECT_PRED2(contains, message_of([&] { headway::picture_tensor(picture, {.height = 0}); }), "size is 224 x 0");
}

TEST(PictureInputs, AreReadAndWritten) {
  const headway_test::TemporaryDirectory directory;
  const auto load = [&](const std::string& text) {
    headway_test::write_bytes(directory / "preprocessor_config.json", text);
    return PictureInput::load(directory.path());
  };
  const PictureInput vit = load(R"({"image_processor_type": "ViTImageProcessor", "size": 32, "resample": 3})");
  EXPECT_EQ(vit, (PictureInput{.height = 32, .width = 32, .resampling = Resampling::bicubic}));
  const PictureInput clip = load(R"({"feature_extractor_type": "CLIPFeatureExtractor", "size": 96, "crop_size": 64})");
  EXPECT_EQ(clip.shortest, 96);
  EXPECT_EQ(clip.crop_width, 64);
  EXPECT_EQ(clip.height, 0);
  EXPECT_EQ(clip.resampling, Resampling::bicubic);
  EXPECT_NEAR(clip.mean[1], 0.4578275, 1e-12);
  const PictureInput plain = load(R"({"do_resize": false, "do_rescale": false, "do_normalize": false})");
  EXPECT_EQ(plain, (PictureInput{.height = 0, .width = 0, .scale = 1.0, .mean = {}, .deviation = {}}));
  const PictureInput one = {.channels = 1, .height = 8, .width = 9, .mean = {}, .deviation = {}};
  for (const PictureInput& input : {vit, clip, plain, one}) {
    input.save(directory.path());
    EXPECT_EQ(PictureInput::load(directory.path()), input);
  }
  const std::string file = (directory / "preprocessor_config.json").string();
  EXPECT_EQ(message_of([&] { load(R"({"size": {"longest_edge": 3}})"); }),
            file + R"(: size is {"longest_edge":3}, expected height and width, or shortest_edge)");
  EXPECT_PRED2(contains, message_of([&] { load(R"({"size": 0})"); }), "expected sizes from 1 on");
  EXPECT_PRED2(contains, message_of([&] { load(R"({"resample": 1})"); }), "resample is 1, expected 0 (nearest)");
  EXPECT_PRED2(contains, message_of([&] { load(R"({"image_mean": [1, 2]})"); }),
               "image_mean has 2 numbers, image_std 3");
  EXPECT_PRED2(contains, message_of([&] { load(R"({"image_processor_type": "LevitImageProcessor"})"); }),
               "ViT or CLIP");
}

TEST(Spectrogram, LowFrequenciesAreBelow) {
  const Tensor values = Tensor::from({1.0f, -1.0f, -1.0f, -1.0f}, {2, 2});
  const Tensor pixels = headway::spectrogram_picture(values);
  EXPECT_EQ(pixels.shape(), headway::Shape({2, 2, 3}));
  EXPECT_GT(pixels.at({1, 0, 0}), 0.9);
  EXPECT_LT(pixels.at({0, 0, 0}), 0.1);
  EXPECT_LT(headway::spectrogram_picture(Tensor::zeros({3, 4})).at({0, 0, 0}), 0.1);
  EXPECT_PRED2(contains, message_of([] { headway::spectrogram_picture(Tensor::zeros({3})); }), "[bins, frames]");
}

}  // namespace
