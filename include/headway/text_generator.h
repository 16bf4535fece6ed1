// Generating text with decoders: GPT-2, Llama, Mistral, Qwen, Gemma, Phi-3.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headway/export.h"
#include "headway/text_task.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"

namespace headway {
inline namespace v0 {

// When a beam search ends, once it has as many finished texts as beams.
enum class EarlyStopping {
  heuristic,  // where the best unfinished beam, at its present length, is no better than the worst of them
  first,      // at once
  never,      // where no unfinished beam can become better
};

// Why a text ends.
enum class EndReason {
  length,     // it has max_new_tokens tokens, or the model no more positions
  end_token,  // an end token of the model, or one of stop_ids
  stop_text,  // one of the stop strings
};

// The attention of the newest token in one step, on the CPU.
struct GeneratedAttention {
  std::int64_t position = 0;  // of the token that attends: the last one of the text so far
  std::vector<Tensor> self;   // per layer [heads, position + 1], or [position + 1] for the mean
  std::vector<Tensor> cross;  // per layer [heads, source_length], likewise; empty for decoders alone
};

class PromptCache;

// How text is generated. What is not given here is taken from the model's generation_config.json, as Hugging Face's
// generate() does.
struct GenerateOptions {
  std::optional<std::int64_t> max_new_tokens = {};  // default: of the config, else 256 for decoders alone
  std::int64_t min_new_tokens = 0;
  // Where one of the next four is given, tokens are drawn; a temperature of 0 takes the most likely ones.
  std::optional<double> temperature = {};
  std::optional<std::int64_t> top_k = {};  // of the k most likely tokens; 0: of all
  std::optional<double> top_p = {};        // of the fewest tokens whose probabilities reach this sum
  std::optional<double> min_p = {};        // of tokens at least this times as likely as the most likely one
  std::optional<double> repetition_penalty = {};
  std::optional<std::int64_t> no_repeat_ngram = {};              // no sequence of as many tokens occurs twice
  std::vector<std::pair<std::int64_t, double>> logit_bias = {};  // added to the logits of tokens
  std::vector<std::int64_t> suppressed = {};                     // tokens that never occur
  std::vector<std::string> stop = {};                            // the text ends before the first of these
  std::vector<std::int64_t> stop_ids = {};                       // beside the end tokens of the model
  bool ignore_end = false;                                       // the model's end tokens do not end the text
  std::uint64_t seed = 0;                     // of the draws; the same text at any number of threads and in any batch
  std::optional<std::int64_t> beams = {};     // more than 1: beam search
  std::int64_t num_return = 1;                // texts for each prompt: the best beams, or drawn ones
  std::optional<double> length_penalty = {};  // a beam's score is its log-probability / length ^ length_penalty
  std::optional<EarlyStopping> early_stopping = {};
  std::int64_t batch_size = 32;         // prompts that are continued together
  const PromptCache* prefix = nullptr;  // a prompt that was read before: what is given follows it
  // Called with each piece of text as it is certain; characters are never cut. Needs one prompt, one text and no beams.
  std::function<void(std::string_view piece)> on_text = nullptr;
  // Called with every new token and its log-probability, likewise. False ends the text.
  std::function<bool(std::int64_t token, double log_probability)> on_token = nullptr;
  // Called before every step of the decoder, with any number of prompts and beams. What it throws ends the call.
  std::function<void()> on_step = nullptr;
  // The attention of every step: collected in the result, or passed to on_attention where it is given. Not with beams.
  Weights weights = Weights::none;
  std::function<void(const GeneratedAttention& attention)> on_attention = nullptr;
};

struct GeneratedText {
  std::string text = {};                       // new text; empty without a tokenizer
  std::vector<std::int64_t> tokens = {};       // new tokens, with the end token where there is one
  std::vector<double> log_probabilities = {};  // of each token by the model, before temperature and other rules
  double score = 0.0;                          // their sum / length ^ length_penalty
  EndReason reason = EndReason::length;
  std::int64_t prompt_tokens = 0;
  std::vector<GeneratedAttention> attention = {};  // of each step, on request
};

// The probability of a given text.
struct TextScore {
  std::vector<std::int64_t> tokens = {};
  std::vector<double> log_probabilities = {};  // of each token after the first, given all before it
  double log_probability = 0.0;                // their sum
  double perplexity = 0.0;                     // exp(-mean)
};

struct ScoreOptions {
  std::int64_t window = 0;  // tokens that are seen together; 0: as many as the model has positions, at most 4096
  std::int64_t stride = 0;  // by which windows move on; 0: half a window
};

namespace internal {
class StepDecoder;
struct GenerationDefaults;
struct KeptPrompt;
}  // namespace internal

// Keys and values of a prompt that several texts begin with. Copying it shares it.
class HEADWAY_API PromptCache {
 public:
  const std::vector<std::int64_t>& tokens() const;

 private:
  friend class TextGenerator;
  explicit PromptCache(std::shared_ptr<const internal::KeptPrompt> kept) : kept_(std::move(kept)) {}
  std::shared_ptr<const internal::KeptPrompt> kept_;
};

// A decoder and its tokenizer, ready to generate. Members may be called from several threads at once.
class HEADWAY_API TextGenerator {
 public:
  // A Hugging Face directory. Without a tokenizer in it, prompts are given and returned as token ids.
  explicit TextGenerator(const std::filesystem::path& directory, const TaskOptions& options = {});
  explicit TextGenerator(TransformerModel model, std::optional<TextTokenizer> tokenizer = {});

  // Continues one prompt: the best text.
  GeneratedText generate(std::string_view prompt, const GenerateOptions& options = {}) const;
  // Continues each prompt; num_return texts for each, the best first.
  std::vector<std::vector<GeneratedText>> generate(const std::vector<std::string>& prompts,
                                                   const GenerateOptions& options = {}) const;
  // The same with token ids, which are taken as they are.
  GeneratedText generate(const std::vector<std::int64_t>& prompt, const GenerateOptions& options = {}) const;
  std::vector<std::vector<GeneratedText>> generate(const std::vector<std::vector<std::int64_t>>& prompts,
                                                   const GenerateOptions& options = {}) const;

  // Reads a prompt once, for GenerateOptions::prefix.
  PromptCache read_prompt(std::string_view prompt) const;
  PromptCache read_prompt(const std::vector<std::int64_t>& prompt) const;

  // Log-probabilities of a text of any length, by windows that overlap.
  TextScore score(std::string_view text, const ScoreOptions& options = {}) const;
  TextScore score(const std::vector<std::int64_t>& tokens, const ScoreOptions& options = {}) const;

  // The attention of one token of a text alone, computed for that query row only.
  GeneratedAttention attention(const std::vector<std::int64_t>& tokens, std::int64_t position,
                               Weights weights = Weights::per_head) const;

  // The ids that generate() makes of a prompt.
  std::vector<std::int64_t> encode(std::string_view prompt) const;
  const TransformerModel& model() const { return model_; }
  const std::optional<TextTokenizer>& tokenizer() const { return tokenizer_; }

 private:
  TransformerModel model_;
  std::optional<TextTokenizer> tokenizer_;
  std::shared_ptr<const internal::StepDecoder> decoder_;
  std::shared_ptr<const internal::GenerationDefaults> defaults_;
};

}  // namespace v0
}  // namespace headway
