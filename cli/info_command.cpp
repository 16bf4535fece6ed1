// headway info
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "headway/device.h"
#include "headway/error.h"
#include "headway/info.h"
#include "headway/safetensors.h"
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

// What the weights are computed as: "float32" or "int8".
std::string numbers_of(const headway::Translator& translator) {
  return std::string(headway::dtype_name(translator.model().state_dict().at("embedding.weight").dtype()));
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
            << ", \"dtype\": " << json_string(numbers_of(*translator)) << ", \"vocab_size\": " << options.vocab_size
            << ", \"d_model\": " << options.d_model << ", \"encoder_layers\": " << options.encoder_layers
            << ", \"decoder_layers\": " << options.decoder_layers
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
            << "  numbers        " << numbers_of(*translator) << '\n'
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

// The safetensors files of a directory in order; the file itself where it is one.
std::vector<std::filesystem::path> tensor_files(const std::filesystem::path& place) {
  if (!std::filesystem::is_directory(place)) return {place};
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(place)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  if (files.empty()) throw headway::Error(place.string() + ": has no safetensors files");
  std::sort(files.begin(), files.end());
  return files;
}

// Compares files with their checksums, each on a line.
int verify(const std::string& place) {
  int code = kDone;
  for (const std::filesystem::path& file : tensor_files(place)) {
    try {
      const bool checked = headway::SafeTensors::open(file).verify();
      std::cout << file.string() << (checked ? ": whole\n" : ": has no checksums\n");
    } catch (const headway::Error& error) {
      std::cout << error.what() << '\n';
      code = kFailed;
    }
  }
  return code;
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
                                           "  headway info --model model --json\n"
                                           "  headway info --verify model"});
  struct Options {
    ModelOptions model;
    bool json = false;
    std::string verified = {};
  };
  const auto options = std::make_shared<Options>();
  options->model.add_to(command);
  command.add_flag("--json", options->json, "Write a JSON object");
  command
      .add_option("--verify", options->verified,
                  "Compare a safetensors file, or all of a directory, with the checksums in them, and do nothing else")
      ->type_name("PATH");
  program.on_run(command, [options] {
    return options->verified.empty() ? run(options->model, options->json) : verify(options->verified);
  });
}

}  // namespace cli
