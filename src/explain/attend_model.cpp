// attend: the attention of a model of any family.
#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "explain/model_tokens.h"
#include "headway/attention_view.h"
#include "headway/autograd.h"
#include "headway/text_generator.h"
#include "headway/text_to_text.h"
#include "nn/evaluation_guard.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using TokenIds = std::vector<std::int64_t>;

// One call of attend().
class AttendingJob {
 public:
  AttendingJob(const TransformerModel& model, const TextTokenizer& tokenizer, const AttendOptions& options)
      : model_(model), tokenizer_(tokenizer), options_(options) {}

  AttentionRecord run(const std::string& text) {
    check(!is_blank(text), "attend: text is blank, expected a sentence");
    const ModelKind kind = model_.options().kind;
    check(kind == ModelKind::encoder || options_.pair.empty(), "attend: pair is given, and the ", model_.family(),
          " model is not an encoder");
    check(kind != ModelKind::encoder || !options_.target, "attend: target is given, and the ", model_.family(),
          " model is an encoder, which writes nothing");
    record_.source = repaired_utf8(text);
    if (kind == ModelKind::encoder) return run_encoder();
    return kind == ModelKind::decoder ? run_decoder() : run_encoder_decoder();
  }

 private:
  static Tensor one_text(const TokenIds& ids) { return Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())}); }

  // The text of tokens, without those that the tokenizer does not have.
  std::string text_of(TokenIds ids) const {
    std::erase_if(ids, [&](std::int64_t id) { return id >= tokenizer_.size(); });
    return tokenizer_.decode(ids);
  }

  void check_tokens(const char* what, const TokenIds& ids, const StackOptions& stack) const;
  void add_part(const char* name, const std::vector<std::string>& queries, const std::vector<std::string>& keys,
                const std::vector<Tensor>& layers);
  AttentionRecord run_encoder();
  AttentionRecord run_decoder();
  AttentionRecord run_encoder_decoder();

  const TransformerModel& model_;
  const TextTokenizer& tokenizer_;
  const AttendOptions& options_;
  AttentionRecord record_;
};

void AttendingJob::check_tokens(const char* what, const TokenIds& ids, const StackOptions& stack) const {
  const auto count = static_cast<std::int64_t>(ids.size());
  check(count > 0, "attend: ", what, " has no tokens, expected at least one");
  check(stack.max_positions == 0 || count <= stack.max_positions, "attend: ", what, " has ", count,
        " tokens, expected at most the ", stack.max_positions, " positions of the model");
  const std::int64_t largest = *std::max_element(ids.begin(), ids.end());
  check(largest < model_.options().vocab_size, "attend: the tokenizer gives id ", largest,
        ", and the model's vocabulary has ", model_.options().vocab_size, " tokens: the tokenizer is of another model");
}

void AttendingJob::add_part(const char* name, const std::vector<std::string>& queries,
                            const std::vector<std::string>& keys, const std::vector<Tensor>& layers) {
  AttentionPart part = {name, queries, keys, {}};
  for (const Tensor& layer : layers) {
    part.layers.push_back(layer.select(0, 0).detach().to(Device::cpu()).to(DType::float32).contiguous());
  }
  record_.parts.push_back(std::move(part));
}

AttentionRecord AttendingJob::run_encoder() {
  record_.target = repaired_utf8(options_.pair);
  const TokenizedText tokens =
      options_.pair.empty() ? tokenizer_.tokenize(record_.source) : tokenizer_.tokenize(record_.source, record_.target);
  check_tokens("text", tokens.ids, model_.options().encoder);
  ModelInput input;
  input.tokens = one_text(tokens.ids);
  if (model_.options().encoder.token_types > 1) input.token_types = one_text(tokens.type_ids);
  input.weights = Weights::per_head;
  const std::vector<std::string> shown = shown_tokens(tokenizer_, tokens, {record_.source, record_.target});
  add_part("encoder", shown, shown, model_.forward(input).encoder_weights);
  return std::move(record_);
}

AttentionRecord AttendingJob::run_decoder() {
  const TokenizedText given = tokenizer_.tokenize(record_.source);
  TokenIds ids = given.ids;
  check_tokens("text", ids, model_.options().decoder);
  std::vector<std::string> shown = shown_tokens(tokenizer_, given, {record_.source});
  TokenIds more;
  if (options_.target) {
    more = tokenizer_.encode(*options_.target, false);
    record_.target = repaired_utf8(*options_.target);
  } else if (options_.max_new_tokens > 0) {
    const GenerateOptions most_likely = {.max_new_tokens = options_.max_new_tokens, .temperature = 0.0};
    more = TextGenerator(model_).generate(ids, most_likely).tokens;
    record_.target = text_of(more);
  }
  for (const std::int64_t id : more) shown.push_back(shown_token(tokenizer_, id));
  ids.insert(ids.end(), more.begin(), more.end());
  check_tokens("text with what follows it", ids, model_.options().decoder);
  const ModelResult seen = model_.forward({.tokens = one_text(ids), .weights = Weights::per_head, .last_only = true});
  add_part("decoder", shown, shown, seen.decoder_weights);
  return std::move(record_);
}

AttentionRecord AttendingJob::run_encoder_decoder() {
  const TokenizedText source = tokenizer_.tokenize(record_.source);
  check_tokens("text", source.ids, model_.options().encoder);
  const std::optional<std::int64_t> start = model_.options().decoder_start_id;
  check(start.has_value(), "attend: the config has no decoder_start_token_id, expected the first token of the decoder");
  TokenIds target;
  if (options_.target) {
    target = tokenizer_.encode(*options_.target);
    record_.target = repaired_utf8(*options_.target);
  } else {
    TextToTextOptions own;
    if (options_.max_new_tokens >= 0) own.generate.max_new_tokens = options_.max_new_tokens;
    target = TextToText(model_).run(std::vector<TokenIds>{source.ids}, own).front().best.front().tokens;
    record_.target = text_of(target);
  }
  check_tokens("target", target, model_.options().decoder);
  TokenIds read = {*start};  // the decoder's input
  read.insert(read.end(), target.begin(), target.end() - 1);
  const ModelResult seen =
      model_.forward({.tokens = one_text(source.ids), .target = one_text(read), .weights = Weights::per_head});
  const auto shown = [&](const TokenIds& ids) {
    std::vector<std::string> tokens;
    for (const std::int64_t id : ids) tokens.push_back(shown_token(tokenizer_, id));
    return tokens;
  };
  const std::vector<std::string> source_tokens = shown_tokens(tokenizer_, source, {record_.source});
  add_part("encoder", source_tokens, source_tokens, seen.encoder_weights);
  add_part("decoder", shown(target), shown(read), seen.decoder_weights);
  add_part("cross", shown(target), source_tokens, seen.cross_weights);
  return std::move(record_);
}

}  // namespace
}  // namespace internal

AttentionRecord attend(const TransformerModel& model, const TextTokenizer& tokenizer, const std::string& text,
                       const AttendOptions& options) {
  const NoGradGuard no_grad;
  const internal::EvaluationGuard evaluation(model);
  return internal::AttendingJob(model, tokenizer, options).run(text);
}

}  // namespace headway::inline v0
