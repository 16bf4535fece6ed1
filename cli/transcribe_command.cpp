// headway transcribe
#include <iostream>
#include <memory>
#include <optional>

#include "headway/error.h"
#include "headway/transcriber.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kTranscribeExamples =
    R"(  headway transcribe three-digits.wav
  headway transcribe --words three-digits.wav          (word, start and end in seconds, by tabs)
  headway transcribe --html page.html three-digits.wav (and what each word looked at)
  headway transcribe --json *.flac                     (an object a line)
  headway transcribe --model whisper-tiny --language en --beams 5 talk.ogg)";

struct Transcribe {
  std::string model = {};
  int threads = 0;
  std::string device = "cpu";
  headway::TranscribeOptions options = {};
  bool words = false;
  bool json = false;
  bool attention = false;
  std::string html = {};
  std::string svg = {};
  std::vector<std::string> files = {};

  int run();
  void transcribe(const headway::Transcriber& transcriber, const std::string& file);
  void print(const std::string& file, const headway::Transcript& transcript) const;
  void draw(const headway::Transcript& transcript) const;
};

std::string json_line(const std::string& file, const headway::Transcript& transcript) {
  std::string words;
  for (const headway::TranscribedWord& word : transcript.words) {
    words += (words.empty() ? "" : ", ") + std::string("{\"word\": ") + json_string(word.text) +
             ", \"start\": " + fixed(word.start, 3) + ", \"end\": " + fixed(word.end, 3) + "}";
  }
  std::string tokens;
  for (const std::int64_t token : transcript.tokens) tokens += (tokens.empty() ? "" : ", ") + std::to_string(token);
  return "{\"file\": " + json_string(file) + ", \"text\": " + json_string(transcript.text) + ", \"words\": [" + words +
         "], \"tokens\": [" + tokens + "], \"score\": " + json_number(transcript.score) +
         ", \"seconds\": " + fixed(transcript.seconds, 3) +
         (transcript.language.empty() ? "" : ", \"language\": " + json_string(transcript.language)) +
         ", \"note\": " + json_string(transcript.notes) + "}";
}

void Transcribe::print(const std::string& file, const headway::Transcript& transcript) const {
  if (json) {
    std::cout << json_line(file, transcript) << '\n';
  } else if (words) {
    for (const headway::TranscribedWord& word : transcript.words) {
      std::cout << shown_line(word.text) << '\t' << fixed(word.start, 2) << '\t' << fixed(word.end, 2) << '\n';
    }
  } else {
    std::cout << shown_line(transcript.text) << '\n';
  }
  std::cout.flush();
  if (!transcript.notes.empty()) {
    std::cerr << "headway transcribe: " << visible_text(file) << ": " << transcript.notes << std::endl;
  }
}

// The first window's attention: in the terminal, as a page, as a picture.
void Transcribe::draw(const headway::Transcript& transcript) const {
  if (transcript.attention.empty()) {
    std::cerr << "headway transcribe: no attention, since there is no text" << std::endl;
    return;
  }
  const headway::AttentionRecord& record = transcript.attention.front();
  if (transcript.attention.size() > 1) {
    std::cerr << "headway transcribe: the attention is that of the first of " << transcript.attention.size()
              << " windows" << std::endl;
  }
  if (attention) {
    std::cout << '\n' << headway::attention_text(record, {.color = is_terminal(1), .width = terminal_width(1, 100)});
  }
  const auto write = [](const std::string& file, const std::string& content) {
    write_file(file, content);
    if (file != "-") std::cerr << file << " written" << std::endl;
  };
  if (!html.empty()) write(html, headway::attention_html(record));
  if (!svg.empty()) write(svg, headway::attention_svg(record, {}));
}

void Transcribe::transcribe(const headway::Transcriber& transcriber, const std::string& file) {
  const headway::Transcript transcript = transcriber.transcribe(std::filesystem::path(file), options);
  if (html != "-" && svg != "-") print(file, transcript);
  if (options.attention) draw(transcript);
}

int Transcribe::run() {
  options.attention = attention || !html.empty() || !svg.empty();
  if (options.attention && files.size() > 1) {
    throw UsageError("--attention, --html and --svg show one sound, and there are " + std::to_string(files.size()));
  }
  if (attention && json) throw UsageError("--attention is for readers and --json for programs: expected one of them");
  options.words = words || json;
  use_threads(threads);
  const std::filesystem::path directory = model.empty() ? shipped_model("spoken-digits") : std::filesystem::path(model);
  const headway::Transcriber transcriber(directory, {.device = headway::Device::parse(device)});
  // A file that cannot be read does not keep the others from being heard.
  std::optional<std::string> problem;
  for (const std::string& file : files) {
    try {
      transcribe(transcriber, file);
    } catch (const headway::Error& error) {
      if (problem) std::cerr << "headway: " << *problem << std::endl;
      problem = error.what();
    }
  }
  if (problem) throw headway::Error(*problem);
  return kDone;
}

void add_transcribe_options(CLI::App& command, Transcribe& options) {
  command
      .add_option("--model", options.model,
                  "Directory of a model of Whisper's layout; default: the one of spoken digits that comes with Headway")
      ->type_name("DIR");
  command
      .add_option("--beams", options.options.beams, "Beams of the search; default: as the model's files say, else 1")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{64}).description(""));
  command.add_option("--language", options.options.language, "Of what is said, for models that know several")
      ->type_name("NAME");
  command.add_option("--task", options.options.task, "transcribe, or translate into English, for models that do both")
      ->type_name("NAME");
  command.add_flag("--words", options.words, "Print each word with its start and end in seconds");
  command.add_flag("--json", options.json, "Write one JSON object for each sound");
  command.add_flag("--attention", options.attention, "Draw what each word looked at in the terminal");
  command.add_option("--html", options.html, "Write a page with every head; - is standard output")->type_name("PAGE");
  command.add_option("--svg", options.svg, "Write a picture of the last layer's heads; - is standard output")
      ->type_name("FILE");
  add_threads_option(command, options.threads);
  command.add_option("--device", options.device, "Where to compute: cpu, or a GPU as cuda or cuda:N")
      ->type_name("NAME")
      ->capture_default_str();
}

}  // namespace

void add_transcribe(Program& program) {
  CLI::App& command =
      program.add_command({"transcribe", "What is said in sounds: WAV, FLAC, Ogg and others, of any rate and channels",
                           kTranscribeExamples});
  const auto options = std::make_shared<Transcribe>();
  add_transcribe_options(command, *options);
  const CLI::Option* const files = add_texts(command, "FILE", "Sound files")->required();
  program.on_run(command, [options, files] {
    options->files = texts_of(*files);
    return options->run();
  });
}

}  // namespace cli
