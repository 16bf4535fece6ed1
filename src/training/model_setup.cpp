// Setting up a fine-tuning run.
#include "training/model_setup.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "base/files.h"
#include "base/json.h"
#include "base/number_text.h"
#include "core/random_stream.h"
#include "training/new_tokenizer.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

// What configs call their dropouts.
constexpr std::array<std::string_view, 14> kDropoutNames = {"hidden_dropout_prob",
                                                            "attention_probs_dropout_prob",
                                                            "dropout",
                                                            "attention_dropout",
                                                            "activation_dropout",
                                                            "resid_pdrop",
                                                            "embd_pdrop",
                                                            "attn_pdrop",
                                                            "dropout_rate",
                                                            "embedding_dropout",
                                                            "mlp_dropout",
                                                            "classifier_dropout",
                                                            "seq_classif_dropout",
                                                            "resid_dropout"};

const char* head_name(HeadKind kind) {
  switch (kind) {
    case HeadKind::language_model:
      return "a language model or masked words";
    case HeadKind::sequence:
      return "sequence classification";
    case HeadKind::tokens:
      return "token classification";
    case HeadKind::span:
      return "question answering";
    default:
      return "none";
  }
}

void set_labels(Json& config, const std::vector<std::string>& labels) {
  Json names = Json::object(), numbers = Json::object();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    names.set(number_text(i), labels[i]);
    numbers.set(labels[i], i);
  }
  config.set("id2label", std::move(names));
  config.set("label2id", std::move(numbers));
}

// The ids that a new tokenizer gives to special tokens. A family's own defaults would lie outside the vocabulary.
void set_token_ids(Json& config, const TextTokenizer& tokenizer) {
  const auto json_of_id = [](std::optional<std::int64_t> id) { return id ? Json(*id) : Json(); };
  config.set("vocab_size", tokenizer.size());
  config.set("bos_token_id", json_of_id(tokenizer.bos_id()));
  config.set("eos_token_id", json_of_id(tokenizer.eos_id()));
  if (!tokenizer.pad_id()) return;
  config.set("pad_token_id", *tokenizer.pad_id());
  config.set("decoder_start_token_id", *tokenizer.pad_id());
}

void set_dropout(Json& config, double dropout) {
  for (const std::string_view name : kDropoutNames) {
    const Json* const found = config.find(name);
    if (found != nullptr && found->is_number()) config.set(name, dropout);
  }
}

// The same weights in memory of their own: those of a file are mapped and cannot be written.
TransformerModel writable_copy(const TransformerModel& loaded, double dropout) {
  Json config = parse_json(loaded.config(), "config.json");
  if (dropout >= 0.0) set_dropout(config, dropout);
  const TransformerModel model = TransformerModel::from_config(config.text(2));
  model.load_state_dict(loaded.state_dict());
  return model;
}

TransformerModel model_of_directory(const FineTuneConfig& config, const TrainingTask& task) {
  ModelLoading loading{.dtype = DType::float32};
  const TransformerModel as_it_is = TransformerModel::load(config.model, loading);
  const TransformerModelOptions& options = as_it_is.options();
  const std::vector<std::string> labels = task.labels();
  const bool fits = options.head.kind == task.head() && (labels.empty() || labels == options.labels);
  if (fits) return writable_copy(as_it_is, config.dropout);
  check(task.head() != HeadKind::language_model || options.kind == ModelKind::encoder, config.model.string(),
        ": has no head for ", head_name(task.head()));
  loading.new_head = task.head();
  loading.new_labels = labels;
  return writable_copy(TransformerModel::load(config.model, loading), config.dropout);
}

TransformerModel model_from_nothing(const FineTuneConfig& config, const TrainingTask& task,
                                    const TextTokenizer& tokenizer) {
  Json json = read_json(config.from_config);
  check(json.is_object(), config.from_config.string(), ": is of the type ", json.kind_name(), ", expected an object");
  if (config.new_tokenizer != NewTokenizer::none) set_token_ids(json, tokenizer);
  if (!task.labels().empty()) set_labels(json, task.labels());
  if (config.dropout >= 0.0) set_dropout(json, config.dropout);
  return TransformerModel::from_config(json.text(2));
}

bool is_embedding(std::string_view name) {
  for (const std::string_view stack : {"encoder.", "decoder."}) {
    if (name.starts_with(stack)) name.remove_prefix(stack.size());
  }
  return name.starts_with("embedding.") || name.starts_with("embedding_norm.") || name.starts_with("positions.") ||
         name.starts_with("token_types.") || name.starts_with("relative_bias.");
}

// The number of the layer that a parameter is of; nothing where it is of none.
std::optional<std::int64_t> layer_of(std::string_view name) {
  for (const std::string_view stack : {"encoder.layers.", "decoder.layers."}) {
    if (name.starts_with(stack))
      return parse_number<std::int64_t>(name.substr(stack.size(), name.find('.', stack.size()) - stack.size()));
  }
  return {};
}

}  // namespace

fs::path tokenizer_directory(const FineTuneConfig& config, const fs::path& made) {
  if (config.new_tokenizer != NewTokenizer::none) return made;
  if (!config.tokenizer.empty()) return config.tokenizer;
  return config.model.empty() ? config.from_config.parent_path() : config.model;
}

TextTokenizer prepare_tokenizer(const FineTuneConfig& config, const TrainingTask& task, const fs::path& directory,
                                bool reuse) {
  if (config.new_tokenizer == NewTokenizer::none) return TextTokenizer::load(directory);
  if (reuse && TextTokenizer::is_in(directory)) return TextTokenizer::load(directory);
  return make_tokenizer(config, task.texts(), directory);
}

TransformerModel prepare_model(const FineTuneConfig& config, const TrainingTask& task, const TextTokenizer& tokenizer) {
  const OwnRandomStream stream({.seed = config.seed});
  const TransformerModel model =
      config.model.empty() ? model_from_nothing(config, task, tokenizer) : model_of_directory(config, task);
  const TransformerModelOptions& options = model.options();
  check(options.head.kind == task.head(), config.from_config.string(), ": its architecture has the head ",
        head_name(options.head.kind), ", and the task needs ", head_name(task.head()));
  check(tokenizer.size() <= options.vocab_size, "the tokenizer has ", tokenizer.size(), " tokens and the model ",
        options.vocab_size, "; they are not of one model");
  return model;
}

void freeze_parts(const FineTuneConfig& config, const TransformerModel& model) {
  std::vector<NamedTensor> parameters = model.named_parameters();
  for (NamedTensor& parameter : parameters) {
    const std::optional<std::int64_t> layer = layer_of(parameter.name);
    const bool frozen =
        layer ? *layer < config.freeze_layers : config.freeze_embeddings && is_embedding(parameter.name);
    if (frozen) parameter.tensor.set_requires_grad(false);
  }
}

std::unique_ptr<AdamW> make_optimizer(const FineTuneConfig& config, const TransformerModel& model) {
  std::vector<ParameterGroup> groups;
  for (const bool head : {false, true}) {
    for (const bool matrices : {true, false}) {
      ParameterGroup group{.parameters = {}, .weight_decay = matrices ? config.weight_decay : 0.0};
      if (head) group.learning_rate_factor = config.head_rate_factor;
      for (const NamedTensor& parameter : model.named_parameters()) {
        const bool fits = (parameter.tensor.rank() > 1) == matrices && parameter.name.starts_with("head.") == head;
        if (fits && parameter.tensor.requires_grad()) group.parameters.push_back(parameter);
      }
      if (!group.parameters.empty()) groups.push_back(std::move(group));
    }
  }
  check(!groups.empty(), "all parameters are frozen, so that there is nothing to train");
  AdamOptions options;
  options.learning_rate = config.learning_rate;
  options.beta1 = config.beta1;
  options.beta2 = config.beta2;
  options.epsilon = config.epsilon;
  return std::make_unique<AdamW>(std::move(groups), options);
}

Schedule make_schedule(const FineTuneConfig& config, std::int64_t steps) {
  const std::int64_t share = static_cast<std::int64_t>(config.warmup_share * static_cast<double>(steps));
  const std::int64_t warmup = std::min(config.warmup_steps > 0 ? config.warmup_steps : share, steps);
  if (config.schedule == LearningRateSchedule::inverse_sqrt) {
    const std::int64_t rise = std::max<std::int64_t>(warmup, 1);
    return warmup_schedule(1, rise, config.learning_rate * std::sqrt(static_cast<double>(rise)));
  }
  DecayOptions options{.peak = config.learning_rate,
                       .warmup_steps = warmup,
                       .steps = steps,
                       .final_rate = std::min(config.final_rate, config.learning_rate)};
  if (config.schedule == LearningRateSchedule::constant) options.final_rate = options.peak;
  return config.schedule == LearningRateSchedule::cosine ? cosine_schedule(options) : linear_schedule(options);
}

}  // namespace headway::inline v0::internal
