// Feeds bytes to the reader of a Marian config.json. What it accepts is a model that can be made, and reads the same
// after it was written; what it does not must be an Error.
#include "base/files.h"
#include "headway/error.h"
#include "input_file.h"
#include "models/marian_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using headway_fuzz::require;
  static const headway_fuzz::InputDirectory directory;
  headway::TranslationModelOptions options;
  try {
    options = headway::internal::read_marian_config(directory.write("config.json", input, size));
  } catch (const headway::Error&) {
    return 0;
  }
  require(options.vocab_size > 0 && options.d_model > 0 && options.max_position_embeddings > 0);
  require(options.encoder_attention_heads > 0 && options.d_model % options.encoder_attention_heads == 0);
  require(options.decoder_attention_heads > 0 && options.d_model % options.decoder_attention_heads == 0);

  headway::internal::replace_file(directory.path() / "again.json", headway::internal::marian_config(options).text());
  const headway::TranslationModelOptions again = headway::internal::read_marian_config(directory.path() / "again.json");
  require(again.vocab_size == options.vocab_size && again.d_model == options.d_model);
  require(again.encoder_layers == options.encoder_layers && again.decoder_layers == options.decoder_layers);
  return 0;
}
