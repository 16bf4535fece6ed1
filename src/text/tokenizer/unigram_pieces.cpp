// Unigram models of SentencePiece: the pieces whose scores have the largest sum. Sums are rounded as SentencePiece
// rounds them, so that paths of nearly equal scores are chosen alike.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/piece_encoder.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

class UnigramPieces final : public PieceEncoder {
 public:
  UnigramPieces(const SentencePieceModel& model, const PieceTable& table, const std::string& about) : table_(table) {
    std::vector<ByteTrie::Key> keys;
    float lowest = std::numeric_limits<float>::max();
    for (const SentencePieceModel::Piece& piece : model.pieces) {
      const auto id = static_cast<std::int32_t>(values_.size());
      const bool user_defined = piece.kind == SentencePieceModel::user_defined;
      if (piece.kind == SentencePieceModel::normal) {
        lowest = std::min(lowest, piece.score);
        highest_ = std::max(highest_, piece.score);
      }
      if (piece.kind == SentencePieceModel::normal || user_defined) keys.push_back({piece.text, id});
      values_.push_back({piece.score, user_defined});
    }
    check(table.longest() > 0, about, ": has no pieces of text");
    constexpr float kUnknownPenalty = 10.0f;
    unknown_score_ = lowest - kUnknownPenalty;
    trie_ = ByteTrie(std::move(keys));
  }

  void encode(std::string_view text, std::vector<TextPiece>& pieces) const override {
    std::vector<Node> path(text.size() + 1);  // by the bytes where pieces end
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t next = begin + static_cast<std::size_t>(character_length(text[begin]));
      const float before = path[begin].score;
      bool has_character = false;
      std::uint32_t node = ByteTrie::kRoot;
      for (std::size_t at = begin; at < text.size() && trie_.step(node, text[at]); ++at) {
        const std::int32_t id = trie_.value(node);
        if (id < 0) continue;
        const std::size_t end = at + 1;
        offer(path[end], begin, id, score_of(id, end - begin) + static_cast<double>(before));
        has_character = has_character || end == next;
      }
      if (!has_character) {
        const float sum = unknown_score_ + before;
        offer(path[next], begin, table_.unknown_id(), static_cast<double>(sum));
      }
      begin = next;
    }
    const std::size_t first = pieces.size();
    for (std::size_t end = text.size(); end > 0; end = static_cast<std::size_t>(path[end].begin)) {
      pieces.push_back({path[end].id, static_cast<std::uint32_t>(path[end].begin), static_cast<std::uint32_t>(end)});
    }
    std::reverse(pieces.begin() + static_cast<std::ptrdiff_t>(first), pieces.end());
  }

 private:
  struct Node {
    float score = 0;
    std::int32_t id = 0;
    std::int32_t begin = -1;  // of the piece that ends here; -1: none yet
  };
  struct Value {
    float score;
    bool user_defined;
  };

  // A symbol of the user beats whatever else could stand there.
  double score_of(std::int32_t id, std::size_t length) const {
    const Value& value = values_[static_cast<std::size_t>(id)];
    if (!value.user_defined) return static_cast<double>(value.score);
    return static_cast<double>(static_cast<float>(length) * highest_) - 0.1;
  }

  static void offer(Node& node, std::size_t begin, std::int32_t id, double sum) {
    if (node.begin >= 0 && !(sum > static_cast<double>(node.score))) return;
    node = {static_cast<float>(sum), id, static_cast<std::int32_t>(begin)};
  }

  const PieceTable& table_;
  std::vector<Value> values_;  // by id
  float highest_ = std::numeric_limits<float>::min(), unknown_score_ = 0;
  ByteTrie trie_;
};

}  // namespace

std::unique_ptr<PieceEncoder> make_unigram_pieces(const SentencePieceModel& model, const PieceTable& table,
                                                  const std::string& about) {
  return std::make_unique<UnigramPieces>(model, table, about);
}

}  // namespace headway::inline v0::internal
