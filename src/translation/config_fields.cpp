// The fields of a training run.
#include "translation/config_fields.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/number_text.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using Config = TranslationTrainingConfig;
constexpr auto kFixed = OnResume::fixed;
constexpr auto kFree = OnResume::free;
constexpr double kMaxWidth = 65536;  // of a layer
constexpr double kMaxLayers = 1024;
constexpr double kMaxVocabulary = 16777216;
constexpr double kMaxSeed = 18446744073709551615.0;

// Collects the entries of the table.
class Entries {
 public:
  void number(std::string_view name, ConfigPlace place, OnResume on_resume, std::pair<double, double> range,
              std::string_view help) {
    all.push_back({name, place, on_resume, range.first, range.second, {}, help});
  }
  void text(std::string_view name, ConfigPlace place, OnResume on_resume, std::string_view help) {
    all.push_back({name, place, on_resume, 0.0, 0.0, {}, help});
  }
  template <typename Enum>
  void choice(std::string_view name, Enum Config::*place, OnResume on_resume,
              std::initializer_list<std::pair<Enum, std::string_view>> choices, std::string_view help) {
    ConfigEntry entry{name, place, on_resume, 0.0, 0.0, {}, help};
    for (const auto& [value, word] : choices) entry.choices.push_back({static_cast<int>(value), word});
    all.push_back(std::move(entry));
  }

  std::vector<ConfigEntry> all;
};

void add_data_fields(Entries& entries) {
  entries.text("data", &Config::data, kFree, "sentence pairs: tab-separated, plain or inside a .zip");
  entries.text("data_target", &Config::data_target, kFree,
               "where set, data holds the sources line by line and this file their translations");
  entries.text("source_language", &Config::source_language, kFixed, "code of the first column's language");
  entries.text("target_language", &Config::target_language, kFixed, "code of the second column's language");
  entries.text("both_directions", &Config::both_directions, kFixed, "one model for both directions");
  entries.number("max_characters", &Config::max_characters, kFixed, {1, kMostCount}, "longer sentences are left out");
  entries.number("max_ratio", &Config::max_ratio, kFixed, {1, 1e6}, "pairs whose lengths differ by more are left out");
  entries.number("max_pairs", &Config::max_pairs, kFixed, {0, kMostCount},
                 "train on the first so many pairs; 0: on all");
  entries.text("data_source", &Config::data_source, kFree,
               "where the pairs are from and their licence, for the model card");
}

void add_tokenizer_fields(Entries& entries) {
  entries.number("vocab_size", &Config::vocab_size, kFixed, {300, kMaxVocabulary},
                 "pieces that the tokenizer learns, 256 of them for bytes");
  entries.choice("pieces", &Config::pieces, kFixed, {{PieceKind::unigram, "unigram"}, {PieceKind::bpe, "bpe"}},
                 "how the tokenizer learns them");
}

void add_model_fields(Entries& entries) {
  entries.number("width", &Config::width, kFixed, {2, kMaxWidth}, "width of the model; a multiple of heads, even");
  entries.number("heads", &Config::heads, kFixed, {1, kMaxWidth}, "attention heads of each layer");
  entries.number("encoder_layers", &Config::encoder_layers, kFixed, {1, kMaxLayers}, "layers that read the source");
  entries.number("decoder_layers", &Config::decoder_layers, kFixed, {1, kMaxLayers}, "layers that write the target");
  entries.number("feed_forward", &Config::feed_forward, kFixed, {1, 16 * kMaxWidth},
                 "inner width of feed-forward networks");
  entries.choice("activation", &Config::activation, kFixed,
                 {{Activation::relu, "relu"}, {Activation::gelu, "gelu"}, {Activation::silu, "silu"}},
                 "of feed-forward networks");
  entries.number("dropout", &Config::dropout, kFree, {0, 0.999}, "on embeddings and on what each sublayer gives");
  entries.number("attention_dropout", &Config::attention_dropout, kFree, {0, 0.999}, "on attention weights");
  entries.number("activation_dropout", &Config::activation_dropout, kFree, {0, 0.999},
                 "inside feed-forward networks, after the activation");
}

void add_optimization_fields(Entries& entries) {
  entries.number("epochs", &Config::epochs, kFree, {1, 1e6}, "passes over the training pairs");
  entries.number("max_steps", &Config::max_steps, kFree, {0, kMostCount}, "stop after so many steps; 0: epochs decide");
  entries.number("batch_tokens", &Config::batch_tokens, kFixed, {16, kMostCount},
                 "padded tokens of source plus target in a batch");
  entries.number("accumulate", &Config::accumulate, kFixed, {1, 1e6}, "batches whose gradients make one step");
  entries.number("learning_rate", &Config::learning_rate, kFree, {0, 1e3}, "the highest, after the warm-up");
  entries.number("warmup_steps", &Config::warmup_steps, kFree, {0, kMostCount},
                 "steps in which the learning rate rises linearly");
  entries.choice("schedule", &Config::schedule, kFree,
                 {{LearningRateSchedule::cosine, "cosine"},
                  {LearningRateSchedule::inverse_sqrt, "inverse_sqrt"},
                  {LearningRateSchedule::linear, "linear"},
                  {LearningRateSchedule::constant, "constant"}},
                 "the learning rate after the warm-up");
  entries.number("weight_decay", &Config::weight_decay, kFree, {0, 1e3},
                 "AdamW's, on matrices; not on biases and norms");
  entries.number("label_smoothing", &Config::label_smoothing, kFree, {0, 0.999}, "probability spread over all tokens");
  entries.number("clip_norm", &Config::clip_norm, kFree, {0, 1e9},
                 "gradients of a larger norm are scaled down; 0: never");
  entries.number("average_last", &Config::average_last, kFree, {0, 1},
                 "weights are averaged over this last part of the steps; 0: no average");
  entries.number("seed", &Config::seed, kFixed, {0, kMaxSeed},
                 "of initial weights, dropout and the order of the batches");
  entries.choice("precision", &Config::precision, kFixed, {{DType::float32, "float32"}, {DType::bfloat16, "bfloat16"}},
                 "what the model computes in; the weights are kept in float32");
}

void add_run_fields(Entries& entries) {
  entries.text("device", &Config::device, kFree, "where the model is trained: cpu, cuda or cuda:N");
  entries.text("output", &Config::output, kFree,
               "the model directory; checkpoints, log and plot go into its training/");
  entries.number("checkpoint_every", &Config::checkpoint_every, kFree, {1, kMostCount},
                 "steps between two checkpoints");
  entries.number("keep_checkpoints", &Config::keep_checkpoints, kFree, {1, kMostCount},
                 "how many of the last are kept");
  entries.number("validate_every", &Config::validate_every, kFree, {1, kMostCount}, "steps between two validations");
  entries.number("validate_sentences", &Config::validate_sentences, kFree, {0, kMostCount},
                 "translated in a validation, of each direction; 0: all");
  entries.number("patience", &Config::patience, kFree, {0, kMostCount},
                 "validations without a better BLEU before stopping, with the best weights saved; 0: never stop early");
  entries.choice("weights", &Config::weights, kFree,
                 {{DType::float32, "float32"}, {DType::float16, "float16"}, {DType::bfloat16, "bfloat16"}},
                 "type in model.safetensors");
}

std::vector<ConfigEntry> make_entries() {
  Entries entries;
  add_data_fields(entries);
  add_tokenizer_fields(entries);
  add_model_fields(entries);
  add_optimization_fields(entries);
  add_run_fields(entries);
  return std::move(entries.all);
}

// The least number of letters to insert, remove or change.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::string_view nearest_name(std::string_view name) {
  std::string_view nearest;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const ConfigEntry& entry : config_entries()) {
    const std::size_t distance = edit_distance(name, entry.name);
    if (distance < least) {
      least = distance;
      nearest = entry.name;
    }
  }
  return nearest;
}

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(std::int64_t value) { return number_text(value); }
std::string text_of(std::uint64_t value) { return number_text(value); }
std::string text_of(double value) { return number_text(value); }
std::string text_of(const std::string& value) { return value; }
std::string text_of(const std::filesystem::path& value) { return value.string(); }

std::string choices_text(const ConfigEntry& entry) {
  std::string text;
  for (const ConfigChoice& choice : entry.choices) {
    text += (text.empty() ? "\"" : ", \"") + std::string(choice.name) + "\"";
  }
  return text;
}

// The name of an enumeration's value; "value 3" for one that the field does not allow.
std::string choice_name(const ConfigEntry& entry, int value) {
  for (const ConfigChoice& choice : entry.choices) {
    if (choice.value == value) return std::string(choice.name);
  }
  return "value " + number_text(value);
}

template <typename Number>
void check_range(std::string_view where, const ConfigEntry& entry, Number value) {
  const auto number = static_cast<double>(value);
  if (number >= entry.least && number <= entry.most) return;
  if (entry.most >= kMostCount) fail(where, ": ", entry.name, " is ", value, ", expected ", entry.least, " or more");
  fail(where, ": ", entry.name, " is ", value, ", expected ", entry.least, " to ", entry.most);
}

}  // namespace

const std::vector<ConfigEntry>& config_entries() {
  static const std::vector<ConfigEntry> entries = make_entries();
  return entries;
}

const ConfigEntry& config_entry(std::string_view name, std::string_view where) {
  if (name == "d_model") name = "width";  // as files of version 0.1 call it
  for (const ConfigEntry& entry : config_entries()) {
    if (entry.name == name) return entry;
  }
  fail(where, ": there is no field \"", name, "\"; the nearest is \"", nearest_name(name), "\"");
}

int choice_value(const ConfigEntry& entry, std::string_view name, std::string_view where) {
  for (const ConfigChoice& choice : entry.choices) {
    if (choice.name == name) return choice.value;
  }
  fail(where, ": ", entry.name, " is \"", name, "\", expected one of ", choices_text(entry));
}

void check_value(std::string_view where, const Config& config, const ConfigEntry& entry) {
  if (const auto* whole = std::get_if<std::int64_t Config::*>(&entry.place)) {
    check_range(where, entry, config.**whole);
  } else if (const auto* real = std::get_if<double Config::*>(&entry.place)) {
    check_range(where, entry, config.**real);
  } else if (!entry.choices.empty()) {
    choice_value(entry, config_text(config, entry), where);
  }
}

std::string config_text(const Config& config, const ConfigEntry& entry) {
  return std::visit(
      [&](auto place) {
        if constexpr (std::is_enum_v<std::remove_reference_t<decltype(config.*place)>>) {
          return choice_name(entry, static_cast<int>(config.*place));
        } else {
          return text_of(config.*place);
        }
      },
      entry.place);
}

std::string config_text(const Config& config, std::string_view name) {
  return config_text(config, config_entry(name, "training config"));
}

}  // namespace internal

std::vector<ConfigField> translation_training_fields() {
  const TranslationTrainingConfig defaults;
  std::vector<ConfigField> fields;
  for (const internal::ConfigEntry& entry : internal::config_entries()) {
    std::string help(entry.help);
    for (std::size_t i = 0; i < entry.choices.size(); ++i) {
      help += (i == 0 ? ": " : i + 1 == entry.choices.size() ? " or " : ", ") + std::string(entry.choices[i].name);
    }
    fields.push_back({std::string(entry.name), internal::config_text(defaults, entry), std::move(help)});
  }
  return fields;
}

}  // namespace headway::inline v0
