// headway classify-picture
#include <iostream>
#include <memory>

#include "headway/picture_classifier.h"
#include "options.h"
#include "task_options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kClassifyPictureExamples =
    R"(  headway classify-picture --model models/digits three.png          (label, score and file)
  headway classify-picture --model DIR --top 3 *.jpg
  headway classify-picture --model DIR --json three.png             (an object a line, with all labels))";

struct ClassifyPicture {
  std::string model = {};
  int threads = 0;
  std::string device = "cpu";
  std::string dtype = {};  // empty: as in the files
  std::int64_t top = 1;
  bool json = false;
  std::vector<std::string> files = {};

  headway::TaskOptions loading() const;
  int run() const;
  void print(const std::string& file, const headway::PictureClassification& found, Table& table) const;
};

void ClassifyPicture::print(const std::string& file, const headway::PictureClassification& found, Table& table) const {
  if (json) {
    std::string labels;
    for (const headway::LabelScore& label : found.labels) {
      labels += (labels.empty() ? "" : ", ") + std::string("{\"label\": ") + json_string(label.label) +
                ", \"score\": " + json_number(label.score) + "}";
    }
    std::cout << "{\"file\": " << json_string(file) << ", \"label\": " << json_string(found.label())
              << ", \"score\": " << json_number(found.score()) << ", \"labels\": [" << labels
              << "], \"note\": " << json_string(found.notes) << "}\n";
    return;
  }
  for (const headway::LabelScore& label : found.labels) {
    table.add({visible_token(label.label), score_text(label.score), shown_line(file)});
  }
  if (!found.notes.empty())
    std::cerr << "headway classify-picture: " << visible_text(file) << ": " << found.notes << '\n';
}

headway::TaskOptions ClassifyPicture::loading() const {
  use_threads(threads);
  return computing_options(device, dtype);
}

int ClassifyPicture::run() const {
  const headway::PictureClassifier classifier(model, loading());
  Table table;
  int result = kDone;
  for (const std::string& file : files) {
    // A picture that cannot be read does not keep those after it from being looked at.
    try {
      print(file, classifier.classify_files({file}, json ? 0 : top).front(), table);
    } catch (const headway::Error& error) {
      std::cerr << "headway classify-picture: " << visible_text(error.what()) << '\n';
      result = kFailed;
    }
  }
  table.print();
  return result;
}

}  // namespace

void add_classify_picture(Program& program) {
  CLI::App& command =
      program.add_command({"classify-picture", "Labels of pictures, with scores", kClassifyPictureExamples});
  const auto options = std::make_shared<ClassifyPicture>();
  command.add_option("--model", options->model, "Directory of a model for image classification")
      ->type_name("DIR")
      ->required();
  add_threads_option(command, options->threads);
  add_computing_options(command, options->device, options->dtype);
  command.add_option("--top", options->top, "Labels to show for each picture, the best first; --json has them all")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20).description(""));
  command.add_flag("--json", options->json, "Print an object a line");
  const CLI::Option* const files = add_texts(command, "FILE", "PNG and JPEG files");
  program.on_run(command, [options, files] {
    options->files = texts_of(*files);
    if (options->files.empty()) throw UsageError("no picture is given, expected at least one FILE");
    return options->run();
  });
}

}  // namespace cli
