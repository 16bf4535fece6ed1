// headway embed
#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>

#include "base/files.h"
#include "base/npy.h"
#include "headway/safetensors.h"
#include "headway/text_encoder.h"
#include "options.h"
#include "task_options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kEmbedExamples =
    R"(  headway embed --model all-MiniLM-L6-v2 < lines.txt > vectors.jsonl    (an array a line)
  headway embed --model all-MiniLM-L6-v2 --output vectors.npy < lines.txt
  headway embed --model e5-small --prompt "query: " "How far is the moon?"
  headway embed --model DIR --json "A man plays the guitar.")";

struct Embed {
  TaskCommand task = {};
  std::string output = {};
  std::optional<std::string> prompt = {};
  std::optional<std::string> prompt_name = {};
  bool normalize = false;

  std::vector<float> collected = {};  // (texts, width) for --output

  int run();
  void embed(const headway::TextEncoder& encoder, const std::vector<std::string>& batch);
  void write(std::int64_t width) const;
};

// The shortest numbers that read back as the same float32; null where one is not finite.
std::string json_array(const float* values, std::int64_t count) {
  std::string text = "[";
  for (std::int64_t i = 0; i < count; ++i) {
    char digits[32];
    if (i > 0) text += ", ";
    if (std::isfinite(values[i])) {
      text.append(digits, std::to_chars(digits, digits + sizeof(digits), values[i]).ptr);
    } else {
      text += "null";
    }
  }
  return text + "]";
}

void Embed::embed(const headway::TextEncoder& encoder, const std::vector<std::string>& batch) {
  std::vector<headway::TextNotes> notes;
  headway::EmbedOptions options;
  options.prompt = prompt;
  options.prompt_name = prompt_name;
  if (normalize) options.normalize = true;
  options.batch_tokens = task.batch_tokens;
  options.notes = &notes;
  const headway::Tensor vectors = encoder.embed(batch, options);
  const std::int64_t width = encoder.width();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const float* const vector = vectors.data<float>() + static_cast<std::int64_t>(i) * width;
    if (!output.empty()) {
      collected.insert(collected.end(), vector, vector + width);
    } else if (task.json) {
      std::cout << "{\"text\": " << json_string(batch[i]) << ", \"embedding\": " << json_array(vector, width)
                << ", \"note\": " << json_string(notes[i].describe()) << "}\n";
    } else {
      std::cout << json_array(vector, width) << '\n';
    }
    task.note(notes[i]);
  }
}

void Embed::write(std::int64_t width) const {
  const std::int64_t count = task.number;
  if (output.ends_with(".safetensors")) {
    headway::save_safetensors(output, {{"embeddings", headway::Tensor::from(collected, {count, width})}});
  } else {
    headway::internal::FileReplacement file(output);
    file.write(headway::internal::npy_header({count, width}));
    file.write({reinterpret_cast<const char*>(collected.data()), collected.size() * sizeof(float)});
    file.commit();
  }
  std::cerr << output << " written: " << count_of(count, "vector") << " of " << width << " numbers" << std::endl;
}

int Embed::run() {
  const bool known = output.empty() || output.ends_with(".npy") || output.ends_with(".safetensors");
  if (!known) throw UsageError("--output is " + output + ", expected a name that ends in .npy or .safetensors");
  if (!output.empty() && task.json) throw UsageError("--json and --output exclude each other");
  if (prompt && prompt_name) throw UsageError("--prompt and --prompt-name exclude each other");
  const headway::TextEncoder encoder(task.model, task.loading());
  task.for_each_batch([&](const std::vector<std::string>& batch) { embed(encoder, batch); });
  if (!output.empty()) write(encoder.width());
  return kDone;
}

}  // namespace

void add_embed(Program& program) {
  CLI::App& command = program.add_command({"embed", "Texts to vectors, for search and comparison", kEmbedExamples});
  const auto options = std::make_shared<Embed>();
  const CLI::Option* const texts = options->task.add_to(
      command,
      "Directory of a sentence-transformers model, or of any encoder, whose last hidden states are "
      "then averaged",
      "Texts to embed; without any, each line of standard input is one");
  command.add_option("--output", options->output, "Write all vectors to a .npy or .safetensors file")
      ->type_name("FILE");
  command.add_option("--prompt", options->prompt, "Put this in front of each text")->type_name("TEXT");
  command.add_option("--prompt-name", options->prompt_name, "Put this prompt of the model in front of each text")
      ->type_name("NAME");
  command.add_flag("--normalize", options->normalize, "Scale vectors to length 1, also where the model does not");
  program.on_run(command, [options, texts] {
    options->task.texts = texts_of(*texts);
    if (options->prompt) options->prompt = unguarded(*options->prompt);
    return options->run();
  });
}

}  // namespace cli
