// Feeds bytes to the readers of pictures and, as preprocessor_config.json, to that of what a model wants. What is read
// has numbers from 0 to 1; what is refused must be an Error.
#include "headway/error.h"
#include "headway/image.h"
#include "input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using headway_fuzz::require;
  static const headway_fuzz::InputDirectory directory;
  const std::string_view bytes(reinterpret_cast<const char*>(input), size);
  for (const std::int64_t channels : {1, 4}) {
    try {
      const headway::Picture picture = headway::parse_picture(bytes, "picture", channels);
      require(picture.pixels.rank() == 3 && picture.pixels.size(2) == channels);
      const float* pixels = picture.pixels.data<const float>();
      for (std::int64_t i = 0; i < picture.pixels.element_count(); ++i) require(pixels[i] >= 0.0f && pixels[i] <= 1.0f);
    } catch (const headway::Error&) {
      break;
    }
  }
  try {
    directory.write("preprocessor_config.json", input, size);
    const headway::PictureInput wanted = headway::PictureInput::load(directory.path());
    require(wanted.mean.size() == wanted.deviation.size());
    wanted.save(directory.path());
    require(headway::PictureInput::load(directory.path()) == wanted);
  } catch (const headway::Error&) {
  }
  return 0;
}
