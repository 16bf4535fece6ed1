#include "recommend/actions.h"

#include <headway/headway.h>

#include <charconv>
#include <fstream>
#include <map>
#include <string>

namespace example {
namespace {

constexpr std::int64_t kMostItems = (std::int64_t{1} << 24) - 1;  // one less than the most words of a model

// The two numbers of a line.
std::pair<std::int64_t, std::int64_t> user_and_item(const std::string& line, const std::string& where) {
  std::int64_t user = 0, item = 0;
  const char* const end = line.data() + line.size();
  const auto [after_user, bad_user] = std::from_chars(line.data(), end, user);
  const bool parted = bad_user == std::errc() && after_user != end && (*after_user == ' ' || *after_user == '\t');
  const auto [after_item, bad_item] = parted ? std::from_chars(after_user + 1, end, item)
                                             : std::from_chars_result{line.data(), std::errc::invalid_argument};
  if (bad_item != std::errc() || after_item != end) {
    throw headway::Error(where + "\"" + line.substr(0, 60) + "\", expected a user and an item, as \"1 17\"");
  }
  if (item < 1 || item > kMostItems) {
    throw headway::Error(where + "the item is " + std::to_string(item) + ", expected 1 to " +
                         std::to_string(kMostItems));
  }
  return {user, item};
}

}  // namespace

Actions read_actions(const std::filesystem::path& data) {
  const std::filesystem::path file = std::filesystem::is_directory(data) ? data / "Video.txt" : data;
  std::ifstream stream(file);
  if (!stream) throw headway::Error(file.string() + " cannot be opened");
  std::map<std::int64_t, std::vector<std::int64_t>> users;
  Actions actions;
  std::int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    const auto [user, item] = user_and_item(line, file.string() + ":" + std::to_string(number) + ": ");
    users[user].push_back(item);
    actions.items = std::max(actions.items, item);
  }
  if (users.empty()) throw headway::Error(file.string() + " is empty, expected lines \"user item\"");
  for (auto& [user, items] : users) actions.users.push_back(std::move(items));
  return actions;
}

Split split_actions(const Actions& actions) {
  Split split;
  split.items = actions.items;
  split.counts.assign(static_cast<std::size_t>(actions.items) + 1, 0);
  for (const std::vector<std::int64_t>& items : actions.users) {
    const bool tested = items.size() >= 3;
    const auto training_end = items.end() - (tested ? 2 : 0);
    split.training.emplace_back(items.begin(), training_end);
    for (auto item = items.begin(); item != training_end; ++item) ++split.counts[static_cast<std::size_t>(*item)];
    if (!tested) continue;
    split.validation.push_back({{items.begin(), items.end() - 2}, items[items.size() - 2]});
    split.test.push_back({{items.begin(), items.end() - 1}, items.back()});
  }
  return split;
}

}  // namespace example
