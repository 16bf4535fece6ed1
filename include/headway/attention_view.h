// What each head looks at: capturing the attention of a model of any family and drawing it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headway/export.h"
#include "headway/sequence_recommender.h"
#include "headway/tensor.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"
#include "headway/translator.h"

namespace headway {
inline namespace v0 {

// What tokens are where they are not text.
enum class MediumKind {
  text,
  picture,  // patches of a picture, row by row
  sound,    // stretches of a sound, from its beginning on
  video,    // patches of a video, frame by frame, row by row
  list      // items, as those that somebody bought
};

// The thing that the tokens of one side are cut from. Tokens are `first` special ones, as a class token, and then the
// cells of the grid: first + frames * rows * columns in all. A text and a list have no grid.
struct AttentionMedium {
  MediumKind kind = MediumKind::text;
  std::string png = {};      // picture; the spectrogram of a sound, time from left to right; frames side by side
  std::int64_t first = 0;    // tokens before the grid
  std::int64_t frames = 1;   // of a video
  std::int64_t rows = 0;     // patches of the picture, or of one frame; of a sound 1
  std::int64_t columns = 0;  // patches of the picture, or of one frame; positions of a sound
  double seconds = 0.0;      // of a sound's column, of a video's frame; 0: not known
};

// One kind of attention with all of its layers and heads. In "decoder" and "cross" of an encoder-decoder, row i belongs
// to the position whose output chooses target token i; the decoder's keys are the tokens before it, the start token
// first. In "decoder" of a decoder alone, queries and keys are both the tokens of the text.
struct AttentionPart {
  std::string name;                  // "encoder", "decoder" or "cross"
  std::vector<std::string> queries;  // tokens that attend, one per row
  std::vector<std::string> keys;     // tokens that are attended to, one per column
  std::vector<Tensor> layers;        // one [heads, queries, keys] float32 per layer; rows sum to 1
  AttentionMedium query_medium = {};
  AttentionMedium key_medium = {};
};

struct AttentionRecord {
  std::string source;
  std::string target;  // what an encoder-decoder wrote, or a decoder after `source`; an encoder: the pair's second text
  std::string language;  // the target's code
  std::vector<AttentionPart> parts;
};

// The attention while `text` is translated: into `target` where it is given, else into the model's own translation.
HEADWAY_API AttentionRecord attend(const Translator& translator, const std::string& text,
                                   const TranslateOptions& options = {}, const std::optional<std::string>& target = {});

struct AttendOptions {
  std::string pair = {};                   // encoders: the second text of a pair
  std::optional<std::string> target = {};  // the text that the decoder writes; default: the model's own
  std::int64_t max_new_tokens = -1;  // of the model's own text; -1: none for a decoder alone, else as its config says
};

// The attention of a model of any family over `text`. Encoders have the part "encoder"; decoders "decoder", over the
// text and what follows it; encoder-decoders "encoder", "decoder" and "cross".
HEADWAY_API AttentionRecord attend(const TransformerModel& model, const TextTokenizer& tokenizer,
                                   const std::string& text, const AttendOptions& options = {});

// The attention of a recommender over the items of a history that it reads: "decoder", whose last row looks for what
// comes next; and in "cross", with one layer of one head, how much of each of the recommended items came from each item
// of the history (RecommendedItem::shares). An Error where the history has no item that the model knows.
HEADWAY_API AttentionRecord attend(const SequenceRecommender& recommender, const std::vector<std::int64_t>& history,
                                   const RecommendOptions& options = {});

// The tokens of a medium's cells by name: "class", "row 3 column 4", "frame 2 row 3 column 4", "0.42 s" (where a
// stretch of sound begins; "position 3" where its seconds are not known). Texts and lists name their tokens themselves.
HEADWAY_API std::vector<std::string> medium_labels(const AttentionMedium& medium);

// The tokens of a model that reads pictures, sounds or other features.
struct MediaTokens {
  AttentionMedium medium = {};            // what the encoder reads
  std::vector<std::string> labels = {};   // the encoder's tokens; empty: medium_labels(medium)
  std::int64_t padding = 0;               // tokens of the encoder after those, which are left out
  std::vector<std::string> read = {};     // tokens that the decoder read, the start token first
  std::vector<std::string> written = {};  // tokens that it chose, as many
  std::int64_t sample = 0;                // of the batch
};

// The attention of a forward with Weights::per_head: "encoder" where the result has an encoder's weights, "decoder" and
// "cross" where it has those. The weights of the sample, on the CPU, in float32.
HEADWAY_API AttentionRecord attention_record(const ModelResult& result, const MediaTokens& tokens);

// Attention rollout over the layers of a self-attention: the product of (mean over heads + identity) / 2 with
// normalised rows: [queries, keys].
HEADWAY_API Tensor attention_rollout(const AttentionPart& part);
// The same through the whole model: how much of each source token reaches each target token through the encoder, the
// cross-attention and the decoder, with normalised rows: [target tokens, source tokens].
HEADWAY_API Tensor attention_rollout(const AttentionRecord& record);
// The mean over heads of one layer, or over all layers and heads where `layer` is -1: [queries, keys].
HEADWAY_API Tensor attention_mean(const AttentionPart& part, std::int64_t layer = -1);

// A self-contained HTML page with every head of every layer.
HEADWAY_API std::string attention_html(const AttentionRecord& record);
// All tokens and weights as JSON.
HEADWAY_API std::string attention_json(const AttentionRecord& record);

struct AttentionDrawing {
  std::string part = {};    // empty: "cross" where there is one, else the first
  std::int64_t layer = -1;  // from 0; -1: the last
  std::int64_t head = -1;   // from 0; -1: all heads side by side
};
// A picture of one layer's heads.
HEADWAY_API std::string attention_svg(const AttentionRecord& record, const AttentionDrawing& drawing = {});

struct TerminalDrawing {
  AttentionDrawing what = {};
  std::string word = {};  // draws this token's row of every head; empty: draws whole maps
  bool color = true;      // 24-bit colour blocks; false: plain text
  std::int64_t width = 100;
};
// Lines for a terminal.
HEADWAY_API std::string attention_text(const AttentionRecord& record, const TerminalDrawing& drawing = {});

}  // namespace v0
}  // namespace headway
