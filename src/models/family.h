// A family of models: how its config.json becomes options, and what its tensors are called.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headway/transformer_model.h"
#include "models/model_config.h"

namespace headway::inline v0::internal {

// A parameter of ours, or a module with its weight and bias, and the tensor of the file. "{}" is a layer's number.
// Several tensors that are joined along their first dimension have a "|" between them.
struct TensorName {
  std::string ours;
  std::string theirs;
  bool transposed = false;  // the file has [in, out]
  std::string copy = {};    // the same tensor once more, which is written and otherwise ignored
  // The parameter is one of several equal parts of the file's tensor along its outputs, in this order.
  std::int64_t part = 0;
  std::int64_t parts = 1;
  std::vector<std::int64_t> shape = {};  // of the file's tensor, where it is not the parameter's
};

struct Family {
  const char* model_type;
  ModelKind kind;
  const char* class_name;      // "Bert" of BertForMaskedLM
  const char* language_model;  // what follows it with a language model's head; null: it has none, and reads pictures
  // Before the names of all but the head, where the model has a head; the first is the one that is written.
  std::vector<std::string> prefixes;
  // Names that are ignored wherever they occur in a tensor's: buffers that are computed.
  std::vector<std::string> ignored;
  // The embedding under other names, all of them with the same values.
  std::vector<std::string> embedding_copies;

  TransformerModelOptions (*read)(const ModelConfig& config, HeadKind head);
  std::vector<TensorName> (*names)(const TransformerModelOptions& options);
  // The config that is kept and written; the whole one where this is null.
  ModelConfig (*text_config)(const ModelConfig& config) = nullptr;
  bool writes_positions = false;  // whether files have the tables of sinusoidal positions
};

// Every family; each file of families adds its own.
std::span<const Family> families();
// The family of a config's model_type; an Error lists the known ones.
const Family& family_of(const ModelConfig& config);
const Family& family_named(std::string_view model_type);

// Whether models of the family may have such a head.
bool has_head(const Family& family, HeadKind head);
// The head that the config's architectures name; without them that of a language model, or none in an encoder.
HeadKind head_of(const ModelConfig& config, const Family& family);
// "BertForMaskedLM".
std::string architecture_of(const Family& family, HeadKind head);

// The families of each file.
std::vector<Family> bert_families();
std::vector<Family> distilbert_families();
std::vector<Family> modernbert_families();
std::vector<Family> gpt2_families();
std::vector<Family> llama_families();
std::vector<Family> gemma_families();
std::vector<Family> bart_families();
std::vector<Family> t5_families();
std::vector<Family> vit_families();
std::vector<Family> whisper_families();
std::vector<Family> vision_encoder_decoder_families();

}  // namespace headway::inline v0::internal
