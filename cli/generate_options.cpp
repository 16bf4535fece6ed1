#include "generate_options.h"

#include <charconv>
#include <iostream>
#include <sstream>

#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

const char* reason_name(headway::EndReason reason) {
  switch (reason) {
    case headway::EndReason::length:
      return "length";
    case headway::EndReason::end_token:
      return "end";
    case headway::EndReason::stop_text:
      break;
  }
  return "stop";
}

std::string json_text(const headway::GeneratedText& text) {
  std::string line = "{\"text\": " + json_string(text.text) + ", \"reason\": \"" + reason_name(text.reason) +
                     "\", \"score\": " + json_number(text.score) + ", \"tokens\": [";
  for (std::size_t i = 0; i < text.tokens.size(); ++i) line += (i > 0 ? ", " : "") + std::to_string(text.tokens[i]);
  line += "], \"log_probabilities\": [";
  for (std::size_t i = 0; i < text.log_probabilities.size(); ++i) {
    line += (i > 0 ? ", " : "") + json_number(text.log_probabilities[i]);
  }
  return line + "]}";
}

std::string shown(const WritingOptions& options, const headway::GeneratedText& text) {
  if (!options.tokens) return shown_line(text.text);
  std::string ids;
  for (const std::int64_t token : text.tokens) ids += (ids.empty() ? "" : " ") + std::to_string(token);
  return ids;
}

template <typename Number>
CLI::Option* add_number(CLI::App& command, const char* name, Number& target, const char* description) {
  return command.add_option(name, target, description)->type_name("X");
}

}  // namespace

std::vector<std::int64_t> parse_ids(const std::string& text) {
  std::vector<std::int64_t> ids;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::int64_t id = 0;
    const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (problem != std::errc() || end != word.data() + word.size()) {
      throw UsageError("--tokens: \"" + word + "\" is not a token id");
    }
    ids.push_back(id);
  }
  return ids;
}

void WritingOptions::add_to(CLI::App& command) {
  command.add_option("--model", model, "Directory of a model, as Hugging Face has it")->type_name("DIR")->required();
  add_threads_option(command, threads);
  add_computing_options(command, device, dtype);
  add_number(command, "--max-new-tokens", max_new_tokens, "Most tokens to write; default: the model's own, else 256");
  add_number(command, "--min-new-tokens", min_new_tokens, "No end before so many tokens");
  add_number(command, "--temperature", temperature, "Draw tokens: lower is likelier, 0 takes the most likely ones");
  add_number(command, "--top-k", top_k, "Draw from the K most likely tokens");
  add_number(command, "--top-p", top_p, "Draw from the fewest tokens whose probabilities reach this sum");
  add_number(command, "--min-p", min_p, "Draw from tokens at least X times as likely as the most likely one");
  add_number(command, "--repetition-penalty", repetition_penalty,
             "Over 1: tokens that are there already are less likely");
  add_number(command, "--no-repeat-ngram", no_repeat_ngram, "No N tokens occur twice");
  command.add_option("--logit-bias", logit_bias, "Adds X to the logit of a token; may be given several times")
      ->type_name("ID:X")
      ->allow_extra_args(false);
  command.add_option("--stop", stop, "End before this string; may be given several times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  command.add_option("--seed", seed, "Of the draws: the same text for the same seed")
      ->type_name("N")
      ->capture_default_str();
  add_number(command, "--beams", beams, "Beam search of this width; 1: none");
  add_number(command, "--num-return", num_return, "Texts for each prompt: the best beams, or drawn ones");
  add_number(command, "--length-penalty", length_penalty, "A beam's score is its log-probability / length ^ X");
  command.add_option("--batch", batch, "Texts to take at once; default: 32, on a GPU 256")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{65536}).description(""));
  command.add_flag("--ignore-end", ignore_end, "The model's end tokens do not end the text");
  command.add_flag("--tokens", tokens, "Texts are token ids between spaces, in and out: needs no tokenizer");
  command.add_flag("--json", json, "Write one JSON object for each text");
}

headway::TaskOptions WritingOptions::open() const {
  use_threads(threads);
  return computing_options(device, dtype);
}

headway::GenerateOptions WritingOptions::options() const {
  constexpr std::int64_t kOnCpu = 32, kOnGpu = 256;
  headway::GenerateOptions chosen = {.max_new_tokens = max_new_tokens,
                                     .min_new_tokens = min_new_tokens,
                                     .temperature = temperature,
                                     .top_k = top_k,
                                     .top_p = top_p,
                                     .min_p = min_p,
                                     .repetition_penalty = repetition_penalty,
                                     .no_repeat_ngram = no_repeat_ngram,
                                     .stop = stop,
                                     .ignore_end = ignore_end,
                                     .seed = seed,
                                     .beams = beams,
                                     .num_return = num_return,
                                     .length_penalty = length_penalty};
  chosen.batch_size = batch > 0 ? batch : device == "cpu" ? kOnCpu : kOnGpu;
  for (const std::string& bias : logit_bias) {
    const std::size_t colon = bias.find(':');
    double value = 0;
    const char* const end = bias.data() + bias.size();
    const auto parsed = colon == std::string::npos ? std::from_chars_result{bias.data(), std::errc::invalid_argument}
                                                   : std::from_chars(bias.data() + colon + 1, end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end) {
      throw UsageError("--logit-bias is " + bias + ", expected ID:X, as 17:-2.5");
    }
    for (const std::int64_t id : parse_ids(bias.substr(0, colon))) chosen.logit_bias.emplace_back(id, value);
  }
  return chosen;
}

std::string shown_texts(const WritingOptions& options, const std::string& prompt, std::int64_t number,
                        const std::vector<headway::GeneratedText>& texts) {
  std::string all;
  if (options.json) {
    for (const headway::GeneratedText& text : texts) all += (all.empty() ? "" : ", ") + json_text(text);
    return "{\"prompt\": " + json_string(prompt) + ", \"texts\": [" + all + "]}\n";
  }
  for (const headway::GeneratedText& text : texts) {
    if (texts.size() > 1) all += std::to_string(number) + '\t' + fixed(text.score, 4) + '\t';
    all += shown(options, text) + '\n';
  }
  return all;
}

}  // namespace cli
