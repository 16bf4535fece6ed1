// attention_html: the page of viewer/ with a record inside.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/base64.h"
#include "base/check.h"
#include "base/markup.h"
#include "explain/json.h"
#include "explain/medium.h"
#include "explain/packing.h"
#include "explain/record.h"
#include "explain/token_text.h"
#include "explain/viewer_page.h"
#include "headway/attention_view.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// A block of data that the page unpacks when it is needed: base64 of zlib of quantised rows.
void append_weights(std::string& page, std::size_t part, const std::string& name, const Tensor& weights) {
  page += "<script type=\"text/plain\" id=\"weights-" + std::to_string(part) + "-" + name + "\">";
  page += base64(deflate(quantize_rows(weights)));
  page += "</script>\n";
}

// The media of a record, each one once, as JSON; parts name them by their places.
class MediaList {
 public:
  // ,"name":3 for the medium of one side of a part; nothing for text.
  std::string field(const char* name, const AttentionMedium& medium) {
    if (medium.kind == MediumKind::text) return {};
    const std::string json = medium_json(medium);
    const auto found = std::find(media_.begin(), media_.end(), json);
    const std::string place = std::to_string(found - media_.begin());
    if (found == media_.end()) media_.push_back(json);
    return std::string(",\"") + name + "\":" + place;
  }
  std::string json() const {
    std::string json;
    for (const std::string& medium : media_) json += (json.empty() ? "" : ",") + medium;
    return "[" + json + "]";
  }

 private:
  std::vector<std::string> media_;
};

std::string describe_parts(const AttentionRecord& record, MediaList& media) {
  std::string json;
  for (const AttentionPart& part : record.parts) {
    json += std::string(json.empty() ? "" : ",") + "{\"name\":" + json_script_string(part.name) +
            ",\"queries\":" + json_strings(part.queries) + ",\"keys\":" + json_strings(part.keys) +
            ",\"layers\":" + std::to_string(part.layers.size()) + ",\"heads\":" + std::to_string(head_count(part)) +
            media.field("queryMedium", part.query_medium) + media.field("keyMedium", part.key_medium) + "}";
  }
  return "[" + json + "]";
}

std::string record_data(const AttentionRecord& record) {
  MediaList media;
  const std::string parts = describe_parts(record, media);
  std::string data =
      "<script type=\"application/json\" id=\"record\">{\"source\":" + json_script_string(record.source) +
      ",\"target\":" + json_script_string(record.target) + ",\"language\":" + json_script_string(record.language) +
      ",\"media\":" + media.json() + ",\"parts\":" + parts + "}</script>\n";
  for (std::size_t i = 0; i < record.parts.size(); ++i) {
    const AttentionPart& part = record.parts[i];
    for (std::size_t layer = 0; layer < part.layers.size(); ++layer) {
      append_weights(data, i, std::to_string(layer), dense_layer(part, static_cast<std::int64_t>(layer)));
    }
    append_weights(data, i, "mean", attention_mean(part));
    if (const Tensor rollout = rollout_of(record, part); rollout.defined()) append_weights(data, i, "rollout", rollout);
  }
  return data;
}

// What stands between two marks.
std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const std::size_t start = text.find(before) + before.size();
  return text.substr(start, text.find(after, start) - start);
}

// The page's own style sheet and script are allowed by their hashes, so that nothing else in it can run: neither what a
// token might become, nor what somebody adds to the file.
std::string policy_of(std::string_view page) {
  return "style-src " + policy_hash(between(page, "<style>", "</style>")) + "; script-src " +
         policy_hash(between(page, "<script>", "</script>"));
}

}  // namespace
}  // namespace internal

std::string attention_html(const AttentionRecord& record) {
  using namespace internal;
  check_record("attention_html", record);
  for (const AttentionPart& part : record.parts) {
    check(!part.queries.empty() && !part.keys.empty(), "attention_html: part \"", part.name,
          "\" has no queries or no keys, expected at least one of each");
  }
  const std::string_view page = viewer_page();
  std::string html;
  std::size_t done = 0;
  const auto replace = [&](std::string_view mark, const std::string& text) {
    const std::size_t place = page.find(mark);
    html += page.substr(done, place - done);
    html += text;
    done = place + mark.size();
  };
  replace("<!--policy-->", policy_of(page));
  replace("<!--title-->", escape_markup(printable(record.source)));
  replace("<!--record-->", record_data(record));
  html += page.substr(done);
  return html;
}

}  // namespace headway::inline v0
