#include "models/family.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace headway::inline v0::internal {
namespace {

std::vector<Family> all_families() {
  std::vector<Family> all;
  for (auto* make :
       {bert_families, distilbert_families, modernbert_families, gpt2_families, llama_families, gemma_families,
        bart_families, t5_families, vit_families, whisper_families, vision_encoder_decoder_families}) {
    std::vector<Family> some = make();
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

// How the names of classes end, and the head that they have. BertForPreTraining has two, of which one is left out.
constexpr std::array<std::pair<std::string_view, HeadKind>, 12> kArchitectures = {{
    {"ForMaskedLM", HeadKind::language_model},
    {"ForPreTraining", HeadKind::language_model},
    {"ForCausalLM", HeadKind::language_model},
    {"LMHeadModel", HeadKind::language_model},
    {"ForConditionalGeneration", HeadKind::language_model},
    {"MTModel", HeadKind::language_model},
    {"ForSequenceClassification", HeadKind::sequence},
    {"ForImageClassification", HeadKind::sequence},
    {"ForTokenClassification", HeadKind::tokens},
    {"ForQuestionAnswering", HeadKind::span},
    {"TextModel", HeadKind::none},
    {"Model", HeadKind::none},
}};

}  // namespace

std::span<const Family> families() {
  static const std::vector<Family> all = all_families();
  return all;
}

const Family& family_named(std::string_view model_type) {
  for (const Family& family : families()) {
    if (model_type == family.model_type) return family;
  }
  fail("there is no family ", model_type);
}

const Family& family_of(const ModelConfig& config) {
  const std::string wanted = config.string("model_type", "");
  std::string names;
  for (const Family& family : families()) {
    if (wanted == family.model_type) return family;
    names += (names.empty() ? "" : ", ") + std::string(family.model_type);
  }
  config.refuse("model_type", "one of " + names);
}

bool has_head(const Family& family, HeadKind head) {
  if (head == HeadKind::none) return true;
  if (!family.language_model) return head == HeadKind::sequence;
  return family.kind != ModelKind::encoder_decoder || head == HeadKind::language_model;
}

HeadKind head_of(const ModelConfig& config, const Family& family) {
  const std::vector<std::string> architectures = config.strings("architectures");
  if (architectures.empty()) {
    return family.kind == ModelKind::encoder ? HeadKind::none : HeadKind::language_model;
  }
  const std::string name = family.class_name;
  // VisionEncoderDecoderModel has a head, whatever its ending says.
  if (family.language_model && architectures.front() == name + family.language_model) return HeadKind::language_model;
  for (const auto& [ending, head] : kArchitectures) {
    if (architectures.front().ends_with(ending) && has_head(family, head)) return head;
  }
  if (!family.language_model) config.refuse("architectures", name + "Model or " + name + "ForImageClassification");
  const bool has_classes = family.kind != ModelKind::encoder_decoder;
  config.refuse(
      "architectures",
      name + "Model, " + name + family.language_model +
          (has_classes ? ", or ForSequenceClassification, ForTokenClassification or ForQuestionAnswering of it" : ""));
}

std::string architecture_of(const Family& family, HeadKind head) {
  const std::string name = family.class_name;
  switch (head) {
    case HeadKind::none:
      return name + "Model";
    case HeadKind::language_model:
      return name + family.language_model;
    case HeadKind::sequence:
      return name + (family.language_model ? "ForSequenceClassification" : "ForImageClassification");
    case HeadKind::tokens:
      return name + "ForTokenClassification";
    case HeadKind::span:
      return name + "ForQuestionAnswering";
  }
  fail("there is no such head");
}

}  // namespace headway::inline v0::internal
