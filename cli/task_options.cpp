#include "task_options.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/utf8.h"
#include "headway/error.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

// Lines that are computed together, so that texts of similar length meet in a batch.
constexpr std::size_t kLinesAtOnce = 4096;

}  // namespace

CLI::Option* TaskCommand::add_to(CLI::App& command, const std::string& model_text, const std::string& texts_text) {
  name = command.get_name();
  command.add_option("--model", model, model_text)->type_name("DIR")->required();
  add_threads_option(command, threads);
  command.add_option("--device", device, "Where to compute: cpu, or a GPU as cuda or cuda:N")
      ->type_name("NAME")
      ->capture_default_str();
  command.add_option("--dtype", dtype, "Numbers to compute with; default: those of the model's files")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  command.add_option("--batch-tokens", batch_tokens, "Tokens to compute at once; default: as many as suit the device")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24).description(""));
  command.add_flag("--json", json, "Write one JSON object for each text");
  return add_texts(command, "TEXT", texts_text);
}

headway::TaskOptions TaskCommand::loading() const {
  use_threads(threads);
  headway::TaskOptions options;
  options.device = headway::Device::parse(device);
  if (dtype == "float32") options.dtype = headway::DType::float32;
  if (dtype == "bfloat16") options.dtype = headway::DType::bfloat16;
  if (dtype == "float16") options.dtype = headway::DType::float16;
  return options;
}

void TaskCommand::for_each_batch(const std::function<void(const std::vector<std::string>& batch)>& use) {
  if (!texts.empty()) return use(texts);
  if (is_terminal(STDIN_FILENO)) std::cerr << "headway " << name << ": a text a line, Ctrl-D ends" << std::endl;
  InputTexts input({.long_texts = long_texts, .bytes_beside = bytes_beside, .command = "headway " + name});
  for (auto batch = input.next(kLinesAtOnce); !batch.empty(); batch = input.next(kLinesAtOnce)) {
    continues = input.continues();
    goes_on = input.goes_on();
    use(batch);
    std::cout.flush();
  }
}

void TaskCommand::note(const headway::TextNotes& notes) {
  ++number;
  if (notes.none()) return;
  std::cout.flush();
  std::cerr << "headway " << name << ": text " << number << ": " << notes.describe() << std::endl;
}

void Table::print() {
  const bool aligned = is_terminal(STDOUT_FILENO);
  std::vector<std::int64_t> widths;
  for (const std::vector<std::string>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], headway::internal::count_characters(row[i]));
    }
  }
  for (const std::vector<std::string>& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      std::cout << row[i];
      if (last) break;
      const std::int64_t missing = widths[i] - headway::internal::count_characters(row[i]);
      std::cout << (aligned ? std::string(static_cast<std::size_t>(missing + 2), ' ') : "\t");
    }
    std::cout << '\n';
  }
  rows_.clear();
}

std::string score_text(double score) { return fixed(score, 4); }

}  // namespace cli
