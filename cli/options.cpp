#include "options.h"

#include <cstdlib>
#include <system_error>

#include "headway/error.h"
#include "headway/threads.h"
#include "launch.h"
#include "text_io.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

// The program's directory; empty where the system does not say.
fs::path program_directory() {
  std::error_code problem;
  const fs::path program = fs::read_symlink("/proc/self/exe", problem);
  return problem ? fs::path() : program.parent_path();
}

}  // namespace

fs::path shipped_model(const std::string& name, const std::string& how) {
  const fs::path program = program_directory();
  std::vector<fs::path> places;
  if (!program.empty()) {
    places = {program / "../../models" / name, program / "../share/headway/models" / name};
  }
  places.push_back(fs::path("models") / name);
  std::string looked_at;
  for (const fs::path& place : places) {
    std::error_code ignored;
    if (fs::exists(place / "config.json", ignored)) return place.lexically_normal();
    looked_at += (looked_at.empty() ? "" : ", ") + place.lexically_normal().string();
  }
  throw headway::Error("no model: name one with " + how + " (looked at " + looked_at + ")");
}

fs::path default_model() {
  if (const char* const named = std::getenv("HEADWAY_MODEL"); named != nullptr && *named != '\0') return named;
  return shipped_model("en-de", "--model DIR or HEADWAY_MODEL");
}

std::string language_code(const headway::Translator& translator, const std::string& option, const std::string& name) {
  if (name.empty()) return {};
  try {
    return translator.language_code(name);
  } catch (const headway::Error&) {
    const std::vector<std::string>& codes = translator.tokenizer().languages();
    throw headway::Error(option + " is " + name +
                         (codes.empty() ? ", and the model has one target language and no codes for it"
                                        : ", expected one of " + joined(codes, ", ")));
  }
}

CLI::Option* add_texts(CLI::App& command, const std::string& name, const std::string& description) {
  // The option's own list stays unused: texts_of() reads what was typed.
  return command
      .add_option_function<std::vector<std::string>>(
          name, [](const std::vector<std::string>&) {}, description)
      ->type_name("");
}

std::string unguarded(std::string value) {
  if (value.ends_with(kBracketGuard)) value.pop_back();
  return value;
}

std::vector<std::string> texts_of(const CLI::Option& option) {
  std::vector<std::string> texts = option.results();
  for (std::string& text : texts) text = unguarded(std::move(text));
  return texts;
}

void add_threads_option(CLI::App& command, int& threads) {
  command
      .add_option("--threads", threads,
                  "Compute with N threads; default: all processors, under mpirun and srun this rank's share of "
                  "them. Results do not depend on it")
      ->type_name("N")
      ->check(CLI::Range(1, 1024).description(""));
}

void use_threads(int threads) {
  if (threads > 0) return headway::set_num_threads(threads);
  // Ranks on one machine share its processors.
  if (std::getenv("HEADWAY_NUM_THREADS") == nullptr && share_of_processors() > 0) {
    headway::set_num_threads(share_of_processors());
  }
}

void ModelOptions::add_to(CLI::App& command) {
  command
      .add_option("--model", model,
                  "Directory of a Marian model; default: $HEADWAY_MODEL, else the one that comes with Headway")
      ->type_name("DIR");
  add_threads_option(command, threads);
}

void add_computing_options(CLI::App& command, std::string& device, std::string& dtype,
                           const std::string& default_dtype) {
  command.add_option("--device", device, "Where to compute: cpu, or a GPU as cuda or cuda:N")
      ->type_name("NAME")
      ->capture_default_str();
  command
      .add_option("--dtype", dtype,
                  "Numbers to compute with; int8: weights of 8 bits, on the CPU; default: " + default_dtype)
      ->check(CLI::IsMember({"float32", "bfloat16", "float16", "int8"}));
}

headway::TaskOptions computing_options(const std::string& device, const std::string& dtype) {
  headway::TaskOptions options = {.device = headway::Device::parse(device)};
  if (dtype == "float32") options.dtype = headway::DType::float32;
  if (dtype == "bfloat16") options.dtype = headway::DType::bfloat16;
  if (dtype == "float16") options.dtype = headway::DType::float16;
  if (dtype == "int8") options.dtype = headway::DType::int8;
  if (dtype == "int8" && !options.device.is_cpu()) {
    throw UsageError("--dtype is int8 and --device " + device + ", expected cpu");
  }
  return options;
}

void ModelOptions::add_device_to(CLI::App& command) {
  add_computing_options(command, device, dtype, "float32, or int8 where the model has it; those of 16 bits need a GPU");
}

headway::TaskOptions ModelOptions::loading() const {
  const headway::TaskOptions options = computing_options(device, dtype);
  if (options.device.is_cpu() && (dtype == "bfloat16" || dtype == "float16")) {
    throw UsageError("--dtype is " + dtype + ", expected float32 or int8 on the CPU");
  }
  return options;
}

fs::path ModelOptions::directory() const { return model.empty() ? default_model() : fs::path(model); }

headway::Translator ModelOptions::open() const {
  use_threads(threads);
  return headway::Translator(directory(), loading());
}

void TranslationOptions::add_to(CLI::App& command) {
  model.add_to(command);
  model.add_device_to(command);
  command.add_option("--to", to, "Language to translate into, as de or en; default: the one that the text is not in")
      ->type_name("LANGUAGE");
  command.add_option("--beam", beam, "Width of the beam search; 1 is greedy search")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{256}).description(""));
  command.add_option("--batch", batch, "Sentences to translate at once; default: 32, on a GPU 256")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{65536}).description(""));
  command
      .add_option("--length-penalty", length_penalty,
                  "A translation's score is its log-probability / length ^ X: over 0 favours long ones")
      ->type_name("X")
      ->capture_default_str()
      ->check(CLI::Range(-100.0, 100.0).description(""));
  command
      .add_option("--max-length", max_length,
                  "Most tokens of a translation; 0: twice the source's and 50, within what the model can")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20).description(""));
}

headway::TranslateOptions TranslationOptions::options() const {
  constexpr std::int64_t kOnCpu = 32, kOnGpu = 256;
  headway::TranslateOptions chosen;
  chosen.to = to;
  chosen.search.beam = beam;
  chosen.search.batch_size = batch > 0 ? batch : model.device == "cpu" ? kOnCpu : kOnGpu;
  chosen.search.length_penalty = length_penalty;
  chosen.search.max_length = max_length;
  return chosen;
}

void PairOptions::add_cleaning_to(CLI::App& command) {
  command.add_option("--max-characters", cleaning.max_characters, "Leave out pairs with a longer side")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40).description(""));
  command
      .add_option("--max-ratio", cleaning.max_ratio,
                  "Leave out pairs of which one side is over X times as long as the other, and over 20 characters")
      ->type_name("X")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e9).description(""));
}

std::vector<headway::TextPair> PairOptions::read() const {
  return data_target.empty() ? headway::read_pairs(data) : headway::read_pairs(data, data_target);
}

}  // namespace cli
