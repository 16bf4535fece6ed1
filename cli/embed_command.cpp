// headway embed
#include <charconv>
#include <cmath>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>

#include "base/files.h"
#include "base/npy.h"
#include "headway/safetensors.h"
#include "headway/text_encoder.h"
#include "launch.h"
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
  std::optional<std::string> prompt = {};
  std::optional<std::string> prompt_name = {};
  bool normalize = false;

  std::int64_t width = 0;             // of a vector
  std::vector<float> collected = {};  // (texts, width), where it is written at the end

  int run();
  bool writes_numbers() const {
    return task.lines.output.ends_with(".npy") || task.lines.output.ends_with(".safetensors");
  }
  std::vector<LineResult> embed(const headway::TextEncoder& encoder, const Lines& lines) const;
  void collect(const std::vector<LineResult>& results);
  void write() const;
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

std::vector<LineResult> Embed::embed(const headway::TextEncoder& encoder, const Lines& lines) const {
  std::vector<headway::TextNotes> notes;
  headway::EmbedOptions options;
  options.prompt = prompt;
  options.prompt_name = prompt_name;
  if (normalize) options.normalize = true;
  options.batch_tokens = task.batch_tokens;
  options.notes = &notes;
  const headway::Tensor vectors = encoder.embed(line_texts(lines), options);
  const std::int64_t width = encoder.width();
  std::vector<LineResult> results;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const float* const vector = vectors.data<float>() + static_cast<std::int64_t>(i) * width;
    std::string text;
    if (writes_numbers()) {
      text.assign(reinterpret_cast<const char*>(vector), static_cast<std::size_t>(width) * sizeof(float));
    } else if (task.json) {
      text = "{\"text\": " + json_string(lines[i].text) + ", \"embedding\": " + json_array(vector, width) +
             ", \"note\": " + json_string(notes[i].describe()) + "}\n";
    } else {
      text = json_array(vector, width) + '\n';
    }
    results.push_back(result_of(lines[i], std::move(text), notes[i]));
  }
  return results;
}

// Keeps the vectors of lines; NaN for one that failed.
void Embed::collect(const std::vector<LineResult>& results) {
  for (const LineResult& result : results) {
    const std::size_t begin = collected.size();
    collected.resize(begin + static_cast<std::size_t>(width), std::nanf(""));
    if (!result.failed) std::memcpy(collected.data() + begin, result.text.data(), result.text.size());
  }
}

void Embed::write() const {
  const std::int64_t count = static_cast<std::int64_t>(collected.size()) / std::max<std::int64_t>(width, 1);
  const std::string& output = task.lines.output;
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
  const std::string& output = task.lines.output;
  if (!output.empty() && !writes_numbers() && !output.ends_with(".jsonl")) {
    throw UsageError("--output is " + output + ", expected a name that ends in .npy, .safetensors or .jsonl");
  }
  if (writes_numbers() && task.json) throw UsageError("--json and --output exclude each other");
  if (writes_numbers() && task.lines.resume) {
    throw UsageError("--resume goes on with lines, and --output is " + output +
                     ", expected a name that ends in .jsonl");
  }
  if (prompt && prompt_name) throw UsageError("--prompt and --prompt-name exclude each other");
  bool writes_here = false;  // where the results come together
  if (writes_numbers()) {
    task.lines.collect = [&](const std::vector<LineResult>& results) { collect(results); };
  }
  const int code = task.run([&] {
    const auto encoder = std::make_shared<headway::TextEncoder>(task.model, task.loading());
    width = encoder->width();
    writes_here = writes_numbers() && launch().rank == 0;
    return [this, encoder](const Lines& lines) { return embed(*encoder, lines); };
  });
  if (writes_here) write();
  return code;
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
  command.get_option("--output")
      ->description(
          "Write all vectors to a .npy or .safetensors file, or lines to a .jsonl file, with which --resume can go on");
  command.add_option("--prompt", options->prompt, "Put this in front of each text")->type_name("TEXT");
  command.add_option("--prompt-name", options->prompt_name, "Put this prompt of the model in front of each text")
      ->type_name("NAME");
  command.add_flag("--normalize", options->normalize, "Scale vectors to length 1, also where the model does not");
  program.on_run(command, [options, texts] {
    options->task.lines.texts = texts_of(*texts);
    if (options->prompt) options->prompt = unguarded(*options->prompt);
    return options->run();
  });
}

}  // namespace cli
