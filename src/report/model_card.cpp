// Writes the model card.
#include "report/model_card.h"

#include <algorithm>
#include <cstdio>

#include "text/languages.h"
#include "translation/config_fields.h"
#include "translation/training_data.h"

namespace headway::inline v0::internal {
namespace {

std::string fixed(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string quality(const TranslationTrainingConfig& config, const CardFacts& facts,
                    const std::vector<ValidationReport>& validations) {
  const auto report = std::find_if(validations.rbegin(), validations.rend(),
                                   [&facts](const ValidationReport& one) { return one.step <= facts.saved_step; });
  if (report == validations.rend()) return "The data held no validation sentences, so that nothing was measured.\n";
  const std::string count = config.validate_sentences > 0 ? "the first " + std::to_string(config.validate_sentences) +
                                                                " distinct sentences of each direction"
                                                          : std::string("all distinct sentences of each direction");
  std::string text = "On the validation part (" + count +
                     ", one reference each; greedy search; BLEU with 13a tokens and exponential smoothing):\n\n"
                     "| direction | BLEU |\n|---|---|\n";
  const std::vector<Direction> directions = directions_of(config);
  for (std::size_t i = 0; i < directions.size() && i < report->directions.size(); ++i) {
    text += "| " + language_name(directions[i].from) + " → " + language_name(directions[i].to) + " | " +
            fixed(report->directions[i], 2) + " |\n";
  }
  return text + "\nIts loss there is " + fixed(report->loss, 4) + " nats per token.\n";
}

std::string precision_text(const TranslationTrainingConfig& config) {
  return config_text(config, "precision") + (config.precision == DType::float32 ? "" : " with float32 master weights");
}

std::string training_text(const TranslationTrainingConfig& config, const CardFacts& facts) {
  std::string text = "Trained with Headway on " + std::to_string(facts.training_pairs) + " sentence pairs";
  if (config.both_directions) text += ", each in both directions";
  text += ".";
  if (!config.data_source.empty()) text += " Data: " + config.data_source + ".";
  text += " No sentence of the validation and test parts is among them in either language.\n\n";
  text += std::to_string(facts.last_step) + " steps of at most " +
          std::to_string(config.batch_tokens * config.accumulate) +
          " padded tokens; AdamW (0.9, 0.98, 1e-9), weight decay " + config_text(config, "weight_decay") +
          ", learning rate " + config_text(config, "learning_rate") + " after " + std::to_string(config.warmup_steps) +
          " steps of warm-up, then " + config_text(config, "schedule") + "; label smoothing " +
          config_text(config, "label_smoothing") + ", dropout " + config_text(config, "dropout") + " (attention " +
          config_text(config, "attention_dropout") + ", activation " + config_text(config, "activation_dropout") +
          "), clipping at " + config_text(config, "clip_norm") + ", seed " + std::to_string(config.seed) + "; on " +
          facts.device + " in " + precision_text(config) + ".";
  if (facts.saved_step < facts.last_step) {
    text += " The weights are those of step " + std::to_string(facts.saved_step) + ", the best in validation.";
  } else if (facts.averaged > 0) {
    text += " The weights are the mean over the last " + std::to_string(facts.averaged) + " steps.";
  }
  return text + " `training_config.json` has every setting.\n";
}

}  // namespace

std::string model_card(const TranslationTrainingConfig& config, const CardFacts& facts,
                       const std::vector<ValidationReport>& validations) {
  const std::string from = language_name(config.source_language), to = language_name(config.target_language);
  const std::string arrow = config.both_directions ? " ↔ " : " → ";
  std::string text = "---\nlanguage:\n- " + config.source_language + "\n- " + config.target_language +
                     "\npipeline_tag: translation\ntags:\n- marian\n- headway\n---\n\n# " + from + arrow + to + "\n\n";
  text += "A Transformer of " + fixed(static_cast<double>(facts.parameters) / 1e6, 1) +
          " million parameters: " + std::to_string(config.encoder_layers) + " encoder and " +
          std::to_string(config.decoder_layers) + " decoder layers of width " + std::to_string(config.width) +
          " with " + std::to_string(config.heads) + " heads, feed-forward networks of " +
          std::to_string(config.feed_forward) + ", " + std::to_string(config.vocab_size) + " joint " +
          config_text(config, "pieces") + " pieces. The directory has the layout of Hugging Face's Marian models.\n";
  if (config.both_directions) {
    text += "\nThe source begins with the language to translate to: `>>" + config.target_language + "<<` or `>>" +
            config.source_language + "<<`.\n";
  }
  text += "\n## Use\n\n```\nheadway translate --model DIRECTORY --to " + config.target_language + " \"...\"\n```\n\n";
  text += "`MarianMTModel` and `MarianTokenizer` of `transformers` load it too.\n";
  text += "\n## Quality\n\n" + quality(config, facts, validations);
  text += "\n## Training\n\n" + training_text(config, facts);
  return text;
}

}  // namespace headway::inline v0::internal
