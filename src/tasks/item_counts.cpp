#include "tasks/item_counts.h"

#include "base/check.h"
#include "base/files.h"
#include "base/json.h"

namespace headway::inline v0::internal {
namespace {

constexpr const char* kName = "items.json";

}  // namespace

std::vector<std::int64_t> read_item_counts(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / kName;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  const Json json = read_json(file);
  const Json* const list = json.find("counts");
  check(list != nullptr && list->is_array(), file.string(), ": counts is ", list == nullptr ? "missing" : "no array",
        ", expected a number for each token");
  std::vector<std::int64_t> counts;
  counts.reserve(list->items().size());
  for (const Json& count : list->items()) {
    check(count.is_int64() && count.int64() >= 0, file.string(), ": counts has ", count.text(), " at ", counts.size(),
          ", expected an integer of at least 0");
    counts.push_back(count.int64());
  }
  return counts;
}

void write_item_counts(const std::filesystem::path& directory, const std::vector<std::int64_t>& counts) {
  Json list = Json::array();
  for (const std::int64_t count : counts) list.push_back(count);
  replace_file(directory / kName, Json({{"counts", std::move(list)}}).text() + "\n");
}

}  // namespace headway::inline v0::internal
