// items.json beside a recommender's model: how often training met each item.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace headway::inline v0::internal {

// The counts of each token; none where the directory has no such file.
std::vector<std::int64_t> read_item_counts(const std::filesystem::path& directory);
void write_item_counts(const std::filesystem::path& directory, const std::vector<std::int64_t>& counts);

}  // namespace headway::inline v0::internal
