// Tokenizers in directories as Hugging Face has them: which files are read, and written again.
#include <cerrno>
#include <cmath>
#include <system_error>

#include "base/check.h"
#include "base/files.h"
#include "base/json.h"
#include "base/staged_files.h"
#include "base/utf8.h"
#include "headway/text_tokenizer.h"
#include "text/tokenizer/old_files.h"
#include "text/tokenizer/text_tokenizer_data.h"

namespace headway::inline v0 {
namespace {

namespace fs = std::filesystem;
using internal::Json;

constexpr const char* kConfigFile = "tokenizer_config.json";

// Whether there is something of that name; reading it says where it is not a regular file.
bool is_there(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored);
}

// A JSON object beside the tokenizer, or an empty one. Its bytes are kept for save().
Json read_beside(const fs::path& directory, const char* name, TextTokenizer::Data& data) {
  const fs::path file = directory / name;
  if (!is_there(file)) return Json::object();
  std::string bytes = internal::read_whole_file(file, {}, {.limit = internal::JsonLimits().bytes});
  Json json = internal::parse_json(bytes, file.string());
  internal::check(json.is_object(), file.string(), ": is ", json.kind_name(), ", expected an object");
  data.files.emplace_back(name, std::move(bytes));
  return json;
}

// The id of a special token: a string, or an object with the text in "content".
std::optional<std::int64_t> special_id(const Json& config, const Json& map, const char* name,
                                       const TextTokenizer::Data& data, const fs::path& directory) {
  const Json* value = config.find(name);
  if (value == nullptr || value->is_null()) value = map.find(name);
  if (value == nullptr || value->is_null()) return {};
  const Json* content = value->is_object() ? value->find("content") : value;
  internal::check(content != nullptr && content->is_string(), directory.string(), ": ", name, " is ",
                  value->kind_name(), ", expected a string");
  const std::int64_t id = data.find(content->string());
  return id < 0 ? std::nullopt : std::optional<std::int64_t>(id);
}

void read_specials(const Json& config, const Json& map, const fs::path& directory, TextTokenizer::Data& data) {
  const auto find = [&](const char* name) { return special_id(config, map, name, data, directory); };
  data.specials = {find("bos_token"), find("eos_token"), find("pad_token"), find("unk_token"),
                   find("cls_token"), find("sep_token"), find("mask_token")};
  const Json* length = config.find("model_max_length");
  if (length == nullptr || length->is_null()) return;
  internal::check(length->is_number() && length->number() >= 0, directory.string(), ": model_max_length is ",
                  internal::shortened(length->text(), 50), ", expected a number");
  // Files say 1e30 where there is no limit.
  constexpr double kLimit = 1e9;
  if (length->number() >= 1 && length->number() <= kLimit) {
    data.max_length = static_cast<std::int64_t>(std::floor(length->number()));
  }
}

}  // namespace

bool TextTokenizer::is_in(const fs::path& directory) {
  return is_there(directory / "tokenizer.json") || internal::has_old_files(directory);
}

TextTokenizer TextTokenizer::from_json(std::string_view json, const std::string& about) {
  auto data = std::make_shared<Data>();
  data->read(internal::parse_json(json, about), about);
  data->files.emplace_back("tokenizer.json", json);
  return TextTokenizer(std::move(data));
}

TextTokenizer TextTokenizer::load(const fs::path& directory) {
  internal::check_directory(directory);
  auto data = std::make_shared<Data>();
  Json config = read_beside(directory, kConfigFile, *data);
  const Json map = read_beside(directory, "special_tokens_map.json", *data);
  const Json added = read_beside(directory, "added_tokens.json", *data);
  const fs::path file = directory / "tokenizer.json";
  if (is_there(file)) {
    std::string bytes = internal::read_whole_file(file, {}, {.limit = internal::JsonLimits().bytes});
    data->read(internal::parse_json(bytes, file.string()), file.string());
    data->files.emplace_back("tokenizer.json", std::move(bytes));
  } else {
    if (!internal::has_old_files(directory)) {
      internal::fail_on_file(directory, ENOENT, directory.string(),
                             ": has no tokenizer, expected tokenizer.json, spiece.model, sentencepiece.bpe.model, "
                             "tokenizer.model, vocab.json and merges.txt, or vocab.txt");
    }
    internal::OldTokenizer old = internal::read_old_files(directory, config, map, added);
    data->read(old.tokenizer, directory.string());
    data->files.emplace_back("tokenizer.json", old.tokenizer.text(2) + "\n");
    for (auto& one : old.files) data->files.push_back(std::move(one));
    config = std::move(old.config);
    std::erase_if(data->files, [](const auto& one) { return one.first == kConfigFile; });
    data->files.emplace_back(kConfigFile, config.text(2) + "\n");
  }
  read_specials(config, map, directory, *data);
  return TextTokenizer(std::move(data));
}

void TextTokenizer::save(const fs::path& directory) const {
  internal::replace_files(directory, [this](const fs::path& files) {
    bool has_config = false;
    for (const auto& [name, bytes] : data_->files) {
      internal::replace_file(files / name, bytes);
      has_config = has_config || name == kConfigFile;
    }
    if (has_config) return;
    const Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
    internal::replace_file(files / kConfigFile, config.text(2) + "\n");
  });
}

}  // namespace headway::inline v0
