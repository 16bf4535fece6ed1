// attention_json, and arrays of JSON.
#include "explain/json.h"

#include <charconv>

#include "explain/medium.h"
#include "explain/record.h"
#include "headway/attention_view.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// The dimensions from `dim` on of values that lie row by row.
void append_numbers(std::string& json, const Shape& shape, int dim, const float*& values) {
  if (dim == shape.rank()) {
    char digits[32];
    const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), *values++);
    json.append(digits, end.ptr);
    return;
  }
  json += '[';
  for (std::int64_t i = 0; i < shape[dim]; ++i) {
    if (i > 0) json += ',';
    append_numbers(json, shape, dim + 1, values);
  }
  json += ']';
}

void append_attention_part(std::string& json, const AttentionRecord& record, const AttentionPart& part) {
  json += "{\"name\":" + json_script_string(part.name) + ",\"queries\":" + json_strings(part.queries) +
          ",\"keys\":" + json_strings(part.keys);
  if (part.query_medium.kind != MediumKind::text) json += ",\"query_medium\":" + medium_json(part.query_medium);
  if (part.key_medium.kind != MediumKind::text) json += ",\"key_medium\":" + medium_json(part.key_medium);
  json += ",\"layers\":[";
  for (std::size_t layer = 0; layer < part.layers.size(); ++layer) {
    if (layer > 0) json += ',';
    append_json_numbers(json, part.layers[layer]);
  }
  json += "],\"mean\":";
  append_json_numbers(json, attention_mean(part));
  if (const Tensor rollout = rollout_of(record, part); rollout.defined()) {
    json += ",\"rollout\":";
    append_json_numbers(json, rollout);
  }
  json += '}';
}

}  // namespace

std::string json_strings(const std::vector<std::string>& texts) {
  std::string json = "[";
  for (const std::string& text : texts) json += (json.size() > 1 ? "," : "") + json_script_string(text);
  return json + "]";
}

void append_json_numbers(std::string& json, const Tensor& values) {
  const Tensor dense = values.detach().to(DType::float32).contiguous();
  const float* next = dense.data<float>();
  append_numbers(json, dense.shape(), 0, next);
}

}  // namespace internal

std::string attention_json(const AttentionRecord& record) {
  using namespace internal;
  check_record("attention_json", record);
  std::string json = "{\"source\":" + json_script_string(record.source) +
                     ",\"target\":" + json_script_string(record.target) +
                     ",\"language\":" + json_script_string(record.language) + ",\"parts\":[";
  for (const AttentionPart& part : record.parts) {
    if (&part != &record.parts.front()) json += ',';
    append_attention_part(json, record, part);
  }
  return json + "]}\n";
}

}  // namespace headway::inline v0
