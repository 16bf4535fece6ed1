// Access to an AttentionRecord: its parts, their sizes, the layer of a drawing.
#include "explain/record.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "explain/medium.h"

namespace headway::inline v0::internal {

std::int64_t head_count(const AttentionPart& part) { return part.layers.empty() ? 0 : part.layers.front().size(0); }

Tensor dense_layer(const AttentionPart& part, std::int64_t layer) {
  return part.layers[static_cast<std::size_t>(layer)].detach().to(DType::float32).contiguous();
}

float strongest(const Tensor& weights) {
  const float* values = weights.data<float>();
  return weights.element_count() == 0 ? 0.0F : *std::max_element(values, values + weights.element_count());
}

void check_part(const char* function, const AttentionPart& part) {
  check(!part.layers.empty(), function, ": part \"", part.name, "\" has no layers, expected at least one");
  for (std::size_t layer = 0; layer < part.layers.size(); ++layer) {
    const Tensor& weights = part.layers[layer];
    check(weights.defined() && weights.rank() == 3 && is_floating(weights.dtype()), function, ": layer ", layer,
          " of part \"", part.name, "\" is ", weights.defined() ? weights.describe() : std::string("undefined"),
          ", expected weights [heads, queries, keys]");
    check(weights.size(0) == part.layers.front().size(0) && weights.size(0) > 0 &&
              weights.size(1) == query_count(part) && weights.size(2) == key_count(part),
          function, ": layer ", layer, " of part \"", part.name, "\" is ", weights, ", expected [",
          part.layers.front().size(0), ", ", query_count(part), ", ", key_count(part), "] for its queries and keys");
    const Tensor dense = dense_layer(part, static_cast<std::int64_t>(layer));
    const float* values = dense.data<float>();
    const bool fine = std::all_of(values, values + dense.element_count(),
                                  [](float weight) { return std::isfinite(weight) && weight >= 0.0F; });
    check(fine, function, ": layer ", layer, " of part \"", part.name,
          "\" holds a negative weight, an infinity or a NaN, expected weights from 0 to 1");
  }
  check_medium(function, "part \"" + part.name + "\": query_medium", part.query_medium, query_count(part));
  check_medium(function, "part \"" + part.name + "\": key_medium", part.key_medium, key_count(part));
}

void check_record(const char* function, const AttentionRecord& record) {
  check(!record.parts.empty(), function, ": record has no parts, expected at least one");
  std::set<std::string> names;
  for (const AttentionPart& part : record.parts) {
    check(names.insert(part.name).second, function, ": record has two parts named \"", part.name,
          "\", expected different names");
    check_part(function, part);
  }
}

const AttentionPart& part_named(const char* function, const AttentionRecord& record, const std::string& name) {
  const auto is_cross = [](const AttentionPart& part) { return part.name == "cross"; };
  if (name.empty() && !record.parts.empty()) {
    const auto cross = std::find_if(record.parts.begin(), record.parts.end(), is_cross);
    return cross == record.parts.end() ? record.parts.front() : *cross;
  }
  std::string known;
  for (const AttentionPart& part : record.parts) {
    if (part.name == name) return part;
    known += (known.empty() ? "" : ", ") + part.name;
  }
  fail(function, ": part is \"", name, "\", expected one of ", known);
}

DrawnLayer drawn_layer(const char* function, const AttentionRecord& record, const AttentionDrawing& drawing) {
  check_record(function, record);
  const AttentionPart& part = part_named(function, record, drawing.part);
  const auto layers = static_cast<std::int64_t>(part.layers.size());
  check(drawing.layer >= -1 && drawing.layer < layers, function, ": layer is ", drawing.layer, ", expected 0 to ",
        layers - 1, ", or -1 for the last");
  check(drawing.head >= -1 && drawing.head < head_count(part), function, ": head is ", drawing.head, ", expected 0 to ",
        head_count(part) - 1, ", or -1 for all");
  return {part, drawing.layer == -1 ? layers - 1 : drawing.layer};
}

}  // namespace headway::inline v0::internal
