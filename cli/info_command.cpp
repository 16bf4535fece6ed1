// headway info
#include <iostream>
#include <memory>
#include <optional>

#include "headway/device.h"
#include "headway/error.h"
#include "headway/info.h"
#include "headway/threads.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

std::string quoted_list(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  quoted.reserve(words.size());
  for (const std::string& word : words) quoted.push_back(json_string(word));
  return "[" + joined(quoted, ", ") + "]";
}

void print_json(const std::string& directory, const std::optional<headway::Translator>& translator) {
  std::cout << "{\"version\": " << json_string(headway::version())
            << ", \"instruction_set\": " << json_string(headway::instruction_set())
            << ", \"instruction_sets\": " << quoted_list(headway::instruction_sets())
            << ", \"threads\": " << headway::num_threads()
            << ", \"cuda\": " << (headway::cuda_device_count() > 0 ? "true" : "false")
            << ", \"cuda_devices\": " << headway::cuda_device_count()
            << ", \"cuda_description\": " << json_string(headway::describe_cuda()) << ", \"model\": ";
  if (!translator) {
    std::cout << "null}\n";
    return;
  }
  const headway::TranslationModelOptions& options = translator->model().options();
  std::cout << "{\"directory\": " << json_string(directory)
            << ", \"parameters\": " << translator->model().parameter_count()
            << ", \"vocab_size\": " << options.vocab_size << ", \"d_model\": " << options.d_model
            << ", \"encoder_layers\": " << options.encoder_layers << ", \"decoder_layers\": " << options.decoder_layers
            << ", \"encoder_attention_heads\": " << options.encoder_attention_heads
            << ", \"decoder_attention_heads\": " << options.decoder_attention_heads
            << ", \"encoder_ffn_dim\": " << options.encoder_ffn_dim
            << ", \"decoder_ffn_dim\": " << options.decoder_ffn_dim
            << ", \"max_position_embeddings\": " << options.max_position_embeddings
            << ", \"languages\": " << quoted_list(translator->tokenizer().languages()) << "}}\n";
}

void print_text(const std::string& directory, const std::optional<headway::Translator>& translator,
                const std::string& why_none) {
  std::cout << "version          " << headway::version() << '\n'
            << "instruction set  " << headway::instruction_set() << " (of " << joined(headway::instruction_sets(), ", ")
            << ")\n"
            << "threads          " << headway::num_threads() << '\n'
            << "CUDA             " << headway::describe_cuda() << '\n';
  if (!translator) {
    std::cout << "model            none: " << why_none << '\n';
    return;
  }
  const headway::TranslationModelOptions& options = translator->model().options();
  std::cout << "model            " << directory << '\n'
            << "  parameters     " << translator->model().parameter_count() << '\n'
            << "  layers         " << options.encoder_layers << " + " << options.decoder_layers << ", "
            << options.d_model << " wide, " << options.encoder_attention_heads << " + "
            << options.decoder_attention_heads << " heads, feed-forward " << options.encoder_ffn_dim << " + "
            << options.decoder_ffn_dim << '\n'
            << "  vocabulary     " << options.vocab_size << " tokens\n"
            << "  languages      "
            << (translator->tokenizer().languages().empty()
                    ? "one direction, no codes"
                    : visible_token(joined(translator->tokenizer().languages(), ", ")))
            << '\n';
}

int run(const ModelOptions& model, bool json) {
  use_threads(model.threads);
  std::string directory = model.model, why_none;
  if (directory.empty()) {
    // A missing default model is reported and is not an error; a model that is named must be readable.
    try {
      directory = default_model().string();
    } catch (const headway::Error& error) {
      why_none = error.what();
    }
  }
  std::optional<headway::Translator> translator;
  if (!directory.empty()) translator.emplace(directory);
  if (json) {
    print_json(directory, translator);
  } else {
    print_text(directory, translator, why_none);
  }
  return kDone;
}

}  // namespace

void add_info(Program& program) {
  CLI::App& command = program.add_command({"info", "Version, instruction set, threads, CUDA and the model",
                                           "  headway info\n"
                                           "  headway info --model model --json"});
  struct Options {
    ModelOptions model;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  options->model.add_to(command);
  command.add_flag("--json", options->json, "Write a JSON object");
  program.on_run(command, [options] { return run(options->model, options->json); });
}

}  // namespace cli
