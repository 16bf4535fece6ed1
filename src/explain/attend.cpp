// attend: the attention of one translation.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "headway/attention_view.h"
#include "headway/autograd.h"
#include "nn/evaluation_guard.h"
#include "text/languages.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using Ids = std::vector<std::int64_t>;
constexpr const char* kBlanks = " \t\r\n\f\v";

std::vector<std::string> tokens_of(const TranslationTokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> tokens;
  for (const std::int64_t id : ids) tokens.push_back(tokenizer.token(id));
  return tokens;
}

// The target language's code, "" for a model of one direction: that of Translator::translate.
std::string chosen_language(const Translator& translator, std::string_view body, const std::string& wanted) {
  if (!wanted.empty()) return translator.language_code(wanted);
  const std::optional<std::string> chosen = choose_target_language(body, translator.tokenizer().languages());
  return chosen ? *chosen : translator.translate({std::string(body)}).front().to;
}

void check_length(const char* what, const Ids& ids, std::int64_t most) {
  const auto count = static_cast<std::int64_t>(ids.size());
  check(count <= most, "attend: ", what, " has ", count, " tokens, expected at most the ", most,
        " positions of the model");
}

// The one batch entry's weights of each layer: [heads, queries, keys].
std::vector<Tensor> first_entries(const std::vector<Tensor>& layers) {
  std::vector<Tensor> entries;
  entries.reserve(layers.size());
  for (const Tensor& layer : layers)
    entries.push_back(layer.select(0, 0).detach().clone().to(Device::cpu()).to(DType::float32));
  return entries;
}

Tensor one_row(const Ids& ids) { return Tensor::from(ids, {1, static_cast<std::int64_t>(ids.size())}); }

}  // namespace
}  // namespace internal

AttentionRecord attend(const Translator& translator, const std::string& text, const TranslateOptions& options,
                       const std::optional<std::string>& target) {
  using namespace internal;
  const TranslationModel& model = translator.model();
  const TranslationTokenizer& tokenizer = translator.tokenizer();
  const std::int64_t positions = model.options().max_position_embeddings;

  AttentionRecord record;
  const auto [code, body] = split_language_code(text, tokenizer.languages());
  record.source = body;
  check(record.source.find_first_not_of(kBlanks) != std::string::npos, "attend: text is blank, expected a sentence");
  record.language = code.empty() ? chosen_language(translator, body, options.to) : std::string(code);
  const Ids source = tokenizer.encode_source(record.source, record.language);
  check_length("text", source, positions);

  // The target tokens: the model's own best hypothesis, or the given target.
  Ids written;
  if (target) {
    written = tokenizer.encode_target(*target);
    check_length("target", written, positions);
    record.target = *target;
  } else {
    SearchOptions search_options = options.search;
    search_options.num_best = 1;
    written = search(model, {source}, search_options).front().front().tokens;
    record.target = tokenizer.decode_target(written);
  }
  check(!written.empty(), "attend: the translation is empty, expected at least its end");
  Ids read = {model.options().decoder_start_token_id};  // the decoder's input
  read.insert(read.end(), written.begin(), written.end() - 1);

  const NoGradGuard no_grad;
  const EvaluationGuard evaluation(model);
  const TranslationResult seen =
      model.forward({.source = one_row(source), .target = one_row(read), .weights = Weights::per_head});
  const std::vector<std::string> source_tokens = tokens_of(tokenizer, source);
  const std::vector<std::string> written_tokens = tokens_of(tokenizer, written);
  record.parts.push_back({"encoder", source_tokens, source_tokens, first_entries(seen.encoder_weights)});
  record.parts.push_back({"decoder", written_tokens, tokens_of(tokenizer, read), first_entries(seen.decoder_weights)});
  record.parts.push_back({"cross", written_tokens, source_tokens, first_entries(seen.cross_weights)});
  return record;
}

}  // namespace headway::inline v0
