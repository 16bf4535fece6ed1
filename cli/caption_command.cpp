// headway caption
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "headway/attention_view.h"
#include "headway/error.h"
#include "headway/image_captioner.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kCaptionExamples =
    R"(  headway caption woman-cook.png
  headway caption --beams 4 *.png                        (the file and its caption, by tabs)
  headway caption --attention woman-cook.png             (which patches each word looked at)
  headway caption --html page.html woman-cook.png        (the same as a page, with every head)
  headway caption --model vit-gpt2-image-captioning --json photo.jpg)";

constexpr std::size_t kFilesAtOnce = 32;

struct CaptionFiles {
  std::string model = {};
  int threads = 0;
  std::string device = "cpu";
  std::string dtype = {};
  std::optional<std::int64_t> beams = {};
  std::optional<std::int64_t> max_new_tokens = {};
  bool json = false;
  bool attention = false;
  std::string html = {};
  std::string svg = {};
  std::vector<std::string> files = {};

  void add_to(CLI::App& command);
  headway::TaskOptions loading() const;
  int run() const;
  // Captions of some of the files; false where one of them could not be read, which standard error says.
  bool caption(const headway::ImageCaptioner& captioner, const std::vector<std::string>& names) const;
  void print(const std::string& name, const headway::Caption& caption, bool has_tokenizer) const;
  bool draws() const { return attention || !html.empty() || !svg.empty(); }
  void draw(const headway::ImageCaptioner& captioner, const headway::Picture& picture,
            const headway::Caption& caption) const;
};

void CaptionFiles::add_to(CLI::App& command) {
  command
      .add_option("--model", model, "Directory of a vision encoder and a text decoder; default: models/emoji-captions")
      ->type_name("DIR");
  command.add_option("--beams", beams, "Beam search of this width; 1: none; default: as the model's config says")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}).description(""));
  command.add_option("--max-new-tokens", max_new_tokens, "Most tokens to write; default: the model's own")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20).description(""));
  command.add_flag("--json", json, "Write one JSON object for each picture");
  command.add_flag("--attention", attention, "Print the patches that each word looked at");
  command.add_option("--html", html, "Write a page: what each word looked at; - is standard output")->type_name("FILE");
  command.add_option("--svg", svg, "Write a picture of the same")->type_name("FILE");
  add_threads_option(command, threads);
  add_computing_options(command, device, dtype);
}

headway::TaskOptions CaptionFiles::loading() const {
  use_threads(threads);
  return computing_options(device, dtype);
}

void CaptionFiles::print(const std::string& name, const headway::Caption& caption, bool has_tokenizer) const {
  const headway::GeneratedText& best = caption.best.front();
  std::vector<std::string> tokens;
  for (const std::int64_t token : best.tokens) tokens.push_back(std::to_string(token));
  if (json) {
    std::cout << "{\"file\": " << json_string(name) << ", \"caption\": " << json_string(best.text)
              << ", \"score\": " << json_number(best.score) << ", \"tokens\": [" << joined(tokens, ", ")
              << "], \"note\": " << json_string(caption.notes) << "}\n";
  } else {
    const std::string text = has_tokenizer ? shown_line(best.text) : joined(tokens, " ");
    std::cout << (files.size() > 1 ? shown_line(name) + "\t" : "") << text << '\n';
  }
  if (caption.notes.empty()) return;
  std::cout.flush();
  std::cerr << "headway caption: " << visible_text(name) << ": " << caption.notes << std::endl;
}

void CaptionFiles::draw(const headway::ImageCaptioner& captioner, const headway::Picture& picture,
                        const headway::Caption& caption) const {
  const headway::AttentionRecord record = captioner.attend(picture, caption.best.front());
  if (attention) {
    std::cout << '\n' << headway::attention_text(record, {.color = is_terminal(1), .width = terminal_width(1, 100)});
  }
  const auto write = [](const std::string& file, const std::string& content) {
    write_file(file, content);
    if (file != "-") std::cerr << file << " written" << std::endl;
  };
  if (!html.empty()) write(html, headway::attention_html(record));
  if (!svg.empty()) write(svg, headway::attention_svg(record));
}

bool CaptionFiles::caption(const headway::ImageCaptioner& captioner, const std::vector<std::string>& names) const {
  std::vector<headway::Picture> pictures;
  std::vector<std::string> read;
  for (const std::string& name : names) {
    try {
      pictures.push_back(headway::read_picture(name, captioner.input().channels));
      read.push_back(name);
    } catch (const headway::Error& error) {
      if (files.size() == 1) throw;
      std::cerr << "headway: " << error.what() << std::endl;
    }
  }
  const std::vector<headway::Caption> captions =
      captioner.caption(pictures, {.max_new_tokens = max_new_tokens, .beams = beams});
  const bool standard_output_taken = html == "-" || svg == "-";
  for (std::size_t i = 0; i < captions.size(); ++i) {
    if (!standard_output_taken) print(read[i], captions[i], captioner.tokenizer().has_value());
    if (draws()) draw(captioner, pictures[i], captions[i]);
  }
  std::cout.flush();
  return read.size() == names.size();
}

int CaptionFiles::run() const {
  if (files.size() > 1 && draws()) {
    const std::string option = !html.empty() ? "--html" : !svg.empty() ? "--svg" : "--attention";
    throw UsageError(option + " is given for " + std::to_string(files.size()) + " pictures, expected one");
  }
  if (attention && json) throw UsageError("--attention is for readers and --json for programs: expected one of them");
  const std::filesystem::path directory = model.empty() ? shipped_model("emoji-captions").string() : model;
  const headway::ImageCaptioner captioner(directory, loading());
  bool all_read = true;
  for (std::size_t begin = 0; begin < files.size(); begin += kFilesAtOnce) {
    const std::size_t end = std::min(files.size(), begin + kFilesAtOnce);
    const auto at = [&](std::size_t i) { return files.begin() + static_cast<std::ptrdiff_t>(i); };
    all_read &= caption(captioner, {at(begin), at(end)});
  }
  return all_read ? kDone : kFailed;
}

}  // namespace

void add_caption(Program& program) {
  CLI::App& command = program.add_command({"caption", "Say what pictures show: PNG or JPEG files", kCaptionExamples});
  const auto options = std::make_shared<CaptionFiles>();
  options->add_to(command);
  CLI::Option* const files = add_texts(command, "FILE", "Pictures");
  files->required();
  program.on_run(command, [options, files] {
    options->files = texts_of(*files);
    return options->run();
  });
}

}  // namespace cli
