#include "models/family_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace headway::inline v0::internal {
namespace {

constexpr std::array<std::pair<const char*, RotaryScaling::Kind>, 7> kRotaryKinds = {{
    {"default", RotaryScaling::Kind::none},
    {"linear", RotaryScaling::Kind::linear},
    {"dynamic", RotaryScaling::Kind::dynamic},
    {"yarn", RotaryScaling::Kind::yarn},
    {"llama3", RotaryScaling::Kind::llama3},
    {"longrope", RotaryScaling::Kind::longrope},
    {"su", RotaryScaling::Kind::longrope},
}};

RotaryScaling::Kind rotary_kind(const ModelConfig& rope) {
  const char* field = rope.has("rope_type") ? "rope_type" : "type";
  const std::string wanted = rope.string(field, "default");
  std::string names;
  for (const auto& [name, kind] : kRotaryKinds) {
    if (wanted == name) return kind;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  rope.refuse(field, "one of " + names);
}

// The factors of longrope, one for each frequency.
std::vector<double> frequency_factors(const ModelConfig& rope, const char* field, std::int64_t dims) {
  std::vector<double> factors = rope.numbers(field);
  if (static_cast<std::int64_t>(factors.size()) != dims / 2) {
    rope.refuse(field, std::to_string(dims / 2) + " numbers, one for each frequency");
  }
  return factors;
}

RotaryScaling read_scaling(const ModelConfig& config, const ModelConfig& rope, const RotaryPositions& rotary) {
  RotaryScaling scaling = {.kind = rotary_kind(rope)};
  const RotaryScaling::Kind kind = scaling.kind;
  if (kind == RotaryScaling::Kind::none) return scaling;
  // Phi-3 has the length of pre-training outside of the object, where it has precedence.
  const char* original = "original_max_position_embeddings";
  scaling.original_length =
      config.has(original) ? config.size(original, rotary.max_length) : rope.size(original, rotary.max_length);
  const double lengthened = static_cast<double>(rotary.max_length) / static_cast<double>(scaling.original_length);
  const bool from_lengths = kind == RotaryScaling::Kind::longrope || kind == RotaryScaling::Kind::yarn;
  if (!from_lengths && !rope.find("factor")) rope.refuse("factor", "a number above 0");
  scaling.factor = rope.positive("factor", lengthened);
  scaling.low_frequency_factor = rope.positive("low_freq_factor", 1.0);
  scaling.high_frequency_factor = rope.positive("high_freq_factor", 4.0);
  scaling.beta_fast = rope.positive("beta_fast", 32.0);
  scaling.beta_slow = rope.positive("beta_slow", 1.0);
  scaling.truncate = rope.boolean("truncate", true);
  scaling.attention_factor = rope.maybe_number("attention_factor");
  scaling.mscale = rope.maybe_number("mscale");
  scaling.mscale_all_dim = rope.maybe_number("mscale_all_dim");
  if (kind == RotaryScaling::Kind::longrope) {
    scaling.short_factors = frequency_factors(rope, "short_factor", rotary.dims);
    scaling.long_factors = frequency_factors(rope, "long_factor", rotary.dims);
  }
  return scaling;
}

// The object that has the rotary parameters of these layers.
ModelConfig rotary_object(const ModelConfig& config, const RotaryDefaults& defaults) {
  if (config.find("rope_parameters")) {
    const ModelConfig all = config.nested("rope_parameters");
    const bool by_type = all.find("full_attention") || all.find("sliding_attention");
    return by_type ? all.nested(defaults.layer_type) : all;
  }
  if (defaults.scaled && config.find("rope_scaling")) return config.nested("rope_scaling");
  return {config.name(), Json::object()};
}

}  // namespace

RotaryPositions read_rotary(const ModelConfig& config, const RotaryDefaults& defaults) {
  const ModelConfig rope = rotary_object(config, defaults);
  RotaryPositions rotary = {.base = rope.positive("rope_theta", config.positive(defaults.base_field, defaults.base)),
                            .max_length = defaults.max_length};
  const double part = rope.positive("partial_rotary_factor", config.positive("partial_rotary_factor", 1.0));
  rotary.dims = static_cast<std::int64_t>(static_cast<double>(defaults.head_dim) * part);
  check(part <= 1.0 && rotary.dims % 2 == 0 && rotary.dims > 0, config.name(), ": partial_rotary_factor of ", part,
        " with heads of ", defaults.head_dim, " rotates ", rotary.dims, " numbers of a head, expected an even number");
  rotary.scaling = read_scaling(config, rope, rotary);
  return rotary;
}

std::vector<std::string> read_layer_types(const ModelConfig& config, std::int64_t layers,
                                          const std::function<bool(std::int64_t)>& otherwise_sliding) {
  std::vector<std::string> types = config.strings("layer_types");
  if (types.empty()) {
    for (std::int64_t i = 0; i < layers; ++i) {
      types.emplace_back(otherwise_sliding(i) ? "sliding_attention" : "full_attention");
    }
  }
  const bool known = std::all_of(types.begin(), types.end(), [](const std::string& type) {
    return type == "full_attention" || type == "sliding_attention";
  });
  if (!known || static_cast<std::int64_t>(types.size()) != layers) {
    config.refuse("layer_types", std::to_string(layers) + " of full_attention and sliding_attention");
  }
  return types;
}

std::vector<std::string> read_labels(const ModelConfig& config) {
  const Json* names = config.find("id2label");
  if (!names) {
    std::vector<std::string> labels(static_cast<std::size_t>(config.size("num_labels", 2)));
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = "LABEL_" + std::to_string(i);
    return labels;
  }
  if (!names->is_object()) config.refuse("id2label", "an object of names by number");
  const std::vector<JsonField>& fields = names->fields();
  std::vector<std::string> labels(fields.size());
  std::vector<bool> seen(fields.size(), false);
  for (const auto& [key, value] : fields) {
    std::size_t id = 0;
    const char* end = key.data() + key.size();
    const auto [stop, error] = std::from_chars(key.data(), end, id);
    if (error != std::errc() || stop != end || id >= labels.size() || seen[id] || !value.is_string()) {
      config.refuse("id2label", "a name for each of 0 to " + std::to_string(labels.size() - 1));
    }
    labels[id] = value.string();
    seen[id] = true;
  }
  return labels;
}

void read_tokens(const ModelConfig& config, const TokenDefaults& defaults, TransformerModelOptions& options) {
  options.bos_id = config.token("bos_token_id", defaults.bos, options.vocab_size);
  options.eos_ids = config.tokens("eos_token_id", defaults.eos, options.vocab_size);
  options.pad_id = config.token("pad_token_id", defaults.pad, options.vocab_size);
}

void set_head_size(const ModelConfig& config, TransformerModelOptions& options) {
  HeadOptions& head = options.head;
  if (head.kind == HeadKind::language_model) head.labels = options.vocab_size;
  if (head.kind == HeadKind::span) head.labels = 2;
  if (head.kind == HeadKind::sequence || head.kind == HeadKind::tokens) {
    options.labels = read_labels(config);
    head.labels = static_cast<std::int64_t>(options.labels.size());
  }
}

std::vector<BlockOptions> same_layers(std::int64_t layers, const BlockOptions& block) {
  return std::vector<BlockOptions>(static_cast<std::size_t>(layers), block);
}

}  // namespace headway::inline v0::internal
