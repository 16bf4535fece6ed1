// The table behind TranslationTrainingConfig: one entry per field with its name, member, range and help.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "headway/translation_training.h"

namespace headway::inline v0::internal {

// Whether a resumed run may have another value than the run that it continues.
enum class OnResume { free, fixed };

template <typename... Types>
using ConfigPlaceOf = std::variant<Types TranslationTrainingConfig::*...>;
// The member of the config that belongs to a field.
using ConfigPlace = ConfigPlaceOf<bool, std::int64_t, std::uint64_t, double, std::string, std::filesystem::path,
                                  PieceKind, Activation, LearningRateSchedule, DType>;

// The upper bound of fields that have none: beyond any count, and its product with a width or a million fits 64 bits.
inline constexpr double kMostCount = 1e12;

// A value that an enumeration may have, and its name in files and on the command line.
struct ConfigChoice {
  int value;
  std::string_view name;
};

struct ConfigEntry {
  std::string_view name;
  ConfigPlace place;
  OnResume on_resume = OnResume::free;
  double least = 0.0;                      // of numbers
  double most = 0.0;                       // of numbers
  std::vector<ConfigChoice> choices = {};  // of enumerations
  std::string_view help;
};

// All fields in the order of the struct.
const std::vector<ConfigEntry>& config_entries();

// The entry of a name; an Error for an unknown name suggests the nearest one and begins with `where`.
const ConfigEntry& config_entry(std::string_view name, std::string_view where);

// The value of an enumeration with a given name; an Error lists the choices and begins with `where`.
int choice_value(const ConfigEntry& entry, std::string_view name, std::string_view where);

// Throws an Error where a number is out of its range, or an enumeration has a value that the field does not allow.
void check_value(std::string_view where, const TranslationTrainingConfig& config, const ConfigEntry& entry);

// A field's value as text: what TranslationTrainingConfig::set() takes.
std::string config_text(const TranslationTrainingConfig& config, const ConfigEntry& entry);
std::string config_text(const TranslationTrainingConfig& config, std::string_view name);

// The config of a JSON text; an Error begins with `where`.
TranslationTrainingConfig config_from_json(const std::string& text, const std::string& where);

}  // namespace headway::inline v0::internal
