// Texts to vectors: sentence-transformers directories, and encoders of every family.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headway/export.h"
#include "headway/tensor.h"
#include "headway/text_task.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"

namespace headway {
inline namespace v0 {

// One vector of the hidden states of a text's tokens.
enum class TextPooling {
  first,          // of the first token
  max,            // the largest number of each dimension
  mean,           // of all tokens
  mean_root,      // the sum / sqrt(tokens)
  weighted_mean,  // token t, from 1, counts t times
  last,           // of the last token
};

// activation(x weight^T + bias) of a pooled vector.
struct TextDense {
  Tensor weight;     // float32 [outputs, inputs]
  Tensor bias = {};  // float32 [outputs], or undefined
  Activation activation = Activation::tanh;
};

// What surrounds the model.
struct TextEncoderOptions {
  std::vector<TextPooling> pooling = {TextPooling::mean};  // several are concatenated
  std::vector<TextDense> dense = {};                       // after pooling, one after the other
  bool normalize = false;                                  // to length 1, at the end
  bool lower_case = false;                                 // of texts, before they are tokenized
  bool include_prompt = true;                              // false: tokens of the prompt are not pooled
  std::int64_t max_length = 0;  // the most tokens of a text; 0: what the model has positions for
  std::map<std::string, std::string> prompts = {};
  std::string default_prompt = {};  // a name in `prompts`; empty: none
};

struct EmbedOptions {
  std::optional<std::string> prompt = {};       // put in front of each text
  std::optional<std::string> prompt_name = {};  // one of the model's own; default: its default prompt
  std::optional<bool> normalize = {};           // default: as the model says
  std::int64_t batch_tokens = 0;                // tokens computed together; 0: as many as suit the device
  std::vector<TextNotes>* notes = nullptr;      // where given, becomes the remarks on each text
};

// A model directory, ready to embed texts. Members may be called from several threads at once.
class HEADWAY_API TextEncoder {
 public:
  // A directory with modules.json is one of sentence-transformers: its pooling, Dense and Normalize modules, lengths
  // and prompts are used. Any other directory of an encoder gives the mean of the last hidden states; a head in it is
  // ignored.
  explicit TextEncoder(const std::filesystem::path& directory, const TaskOptions& options = {});
  // The model must be in evaluation mode.
  TextEncoder(TransformerModel model, TextTokenizer tokenizer, TextEncoderOptions options = {});

  // float32 [texts, width()] on the CPU, in the order of the texts. Texts are sorted by length and computed in packed
  // batches, without padding. A text with more than max_length() tokens is cut; an empty text has the vector of its
  // special tokens.
  Tensor embed(const std::vector<std::string>& texts, const EmbedOptions& options = {}) const;

  // Numbers of a vector.
  std::int64_t width() const;
  std::int64_t max_length() const;
  const TransformerModel& model() const;
  const TextTokenizer& tokenizer() const;
  const TextEncoderOptions& options() const;
  // Writes a sentence-transformers directory.
  void save(const std::filesystem::path& directory) const;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace v0
}  // namespace headway
