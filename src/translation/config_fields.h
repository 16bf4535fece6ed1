// The table behind TranslationTrainingConfig: every field's name, place, range and help in one line each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "headway/translation_training.h"

namespace headway::inline v0::internal {

// Whether a resumed run may have another value than the run that it goes on with.
enum class OnResume { free, fixed };

using ConfigPlace =
    std::variant<bool TranslationTrainingConfig::*, std::int64_t TranslationTrainingConfig::*,
                 std::uint64_t TranslationTrainingConfig::*, double TranslationTrainingConfig::*,
                 std::string TranslationTrainingConfig::*, std::filesystem::path TranslationTrainingConfig::*>;

// The end of ranges that have none: beyond any count, and a product with a width or a million still fits 64 bits.
inline constexpr double kMostCount = 1e12;

struct ConfigEntry {
  std::string_view name;
  ConfigPlace place;
  OnResume on_resume = OnResume::free;
  double least = 0.0;                          // of numbers
  double most = 0.0;                           // of numbers
  std::vector<std::string_view> choices = {};  // of texts; empty: any
  std::string_view help;
};

// All fields in the order of the struct.
const std::vector<ConfigEntry>& config_entries();

// The entry of a name; throws for others, naming the nearest one. `where` begins the message.
const ConfigEntry& config_entry(std::string_view name, std::string_view where);

// A field's value as text: what TranslationTrainingConfig::set() takes.
std::string config_text(const TranslationTrainingConfig& config, const ConfigEntry& entry);
std::string config_text(const TranslationTrainingConfig& config, std::string_view name);

// The config of a JSON text; `where` begins the messages.
TranslationTrainingConfig config_from_json(const std::string& text, const std::string& where);

}  // namespace headway::inline v0::internal
