#include "media/preprocessor_config.h"

#include <cmath>

#include "base/check.h"
#include "base/files.h"

namespace headway::inline v0::internal {
namespace {

constexpr const char* kPreprocessorFile = "preprocessor_config.json";
constexpr std::int64_t kMostInteger = std::int64_t{1} << 31;

}  // namespace

PreprocessorConfig::PreprocessorConfig(const std::filesystem::path& directory)
    : file_((directory / kPreprocessorFile).string()), json_(read_json(directory / kPreprocessorFile)) {
  check(json_.is_object(), file_, ": a JSON ", json_.kind_name(), ", expected an object");
}

const Json* PreprocessorConfig::find(const char* name) const {
  const Json* value = json_.find(name);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

void PreprocessorConfig::integer(const char* name, std::int64_t& target, std::int64_t least) const {
  const Json* value = find(name);
  if (value == nullptr) return;
  check(value->is_int64() && value->int64() >= least && value->int64() <= kMostInteger, file_, ": ", name, " is ",
        value->text(), ", expected an integer from ", least, " on");
  target = value->int64();
}

void PreprocessorConfig::number(const char* name, double& target) const {
  const Json* value = find(name);
  if (value == nullptr) return;
  check(value->is_number() && std::isfinite(value->number()), file_, ": ", name, " is ", value->text(),
        ", expected a number");
  target = value->number();
}

bool PreprocessorConfig::boolean(const char* name, bool otherwise) const {
  const Json* value = find(name);
  if (value == nullptr) return otherwise;
  check(value->is_boolean(), file_, ": ", name, " is ", value->text(), ", expected true or false");
  return value->boolean();
}

void save_preprocessor_config(const std::filesystem::path& directory, const Json& json) {
  replace_file(directory / kPreprocessorFile, json.text(2) + "\n");
}

}  // namespace headway::inline v0::internal
