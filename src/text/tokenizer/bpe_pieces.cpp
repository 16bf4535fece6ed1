// BPE models of SentencePiece: of all neighbours that together are a piece, those of the best score merge first.
#include <algorithm>
#include <unordered_map>

#include "text/tokenizer/piece_encoder.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

// One text's symbols while they merge.
class PieceMerger {
 public:
  PieceMerger(const PieceTable& table, const UserSymbols& symbols, std::string_view text) : table_(table), text_(text) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t symbol = symbols.match(text.substr(begin));
      const std::size_t length = symbol > 0 ? symbol : static_cast<std::size_t>(character_length(text[begin]));
      const auto number = static_cast<std::int32_t>(symbols_.size());
      symbols_.push_back(
          {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(length), number - 1, number + 1, symbol > 0});
      begin += length;
    }
    symbols_.back().next = -1;
  }

  void merge() {
    for (std::int32_t n = 1; n < static_cast<std::int32_t>(symbols_.size()); ++n) offer(n - 1, n);
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), is_later);
      const Pair pair = heap_.back();
      heap_.pop_back();
      Symbol &left = at(pair.left), &right = at(pair.right);
      // One of the two has merged since.
      if (left.length == 0 || right.length == 0 || left.length + right.length != pair.length) continue;
      left.length = pair.length;
      left.next = right.next;
      if (right.next >= 0) at(right.next).previous = pair.left;
      right.length = 0;
      offer(left.previous, pair.left);
      offer(pair.left, left.next);
    }
  }

  void append(std::vector<TextPiece>& pieces) const {
    for (std::int32_t n = 0; n >= 0; n = symbols_[static_cast<std::size_t>(n)].next) {
      const Symbol& symbol = symbols_[static_cast<std::size_t>(n)];
      const std::int32_t id = table_.id(text_.substr(symbol.begin, symbol.length));
      if (table_.kind(id) == SentencePieceModel::unused) {
        append_parts(symbol.begin, symbol.length, pieces);
      } else {
        pieces.push_back({id, symbol.begin, symbol.begin + symbol.length});
      }
    }
  }

 private:
  struct Symbol {
    std::uint32_t begin, length;  // bytes of the text; length 0: merged into another
    std::int32_t previous, next;  // -1: none
    bool alone;                   // never merges
  };
  struct Pair {
    float score;
    std::int32_t left, right;
    std::uint32_t length;  // of both
  };

  static bool is_later(const Pair& a, const Pair& b) {
    return a.score < b.score || (a.score == b.score && a.left > b.left);
  }

  Symbol& at(std::int32_t number) { return symbols_[static_cast<std::size_t>(number)]; }

  void offer(std::int32_t left_number, std::int32_t right_number) {
    if (left_number < 0 || right_number < 0) return;
    const Symbol &left = at(left_number), &right = at(right_number);
    const std::uint32_t length = left.length + right.length;
    if (left.alone || right.alone || length > table_.longest()) return;
    const std::string_view piece = text_.substr(left.begin, length);
    const std::int32_t id = table_.text_id(piece);
    if (id < 0) return;
    heap_.push_back({table_.score(id), left_number, right_number, length});
    std::push_heap(heap_.begin(), heap_.end(), is_later);
    if (table_.kind(id) == SentencePieceModel::unused) halves_[piece] = left.length;
  }

  // A piece that must not be used is taken apart again as it was merged.
  void append_parts(std::uint32_t begin, std::uint32_t length, std::vector<TextPiece>& pieces) const {
    struct Part {
      std::uint32_t begin, length;
    };
    std::vector<Part> open = {{begin, length}};
    while (!open.empty()) {
      const Part part = open.back();
      open.pop_back();
      const std::string_view piece = text_.substr(part.begin, part.length);
      const std::int32_t id = table_.id(piece);
      const auto half = table_.kind(id) == SentencePieceModel::unused ? halves_.find(piece) : halves_.end();
      if (half == halves_.end()) {
        pieces.push_back({id, part.begin, part.begin + part.length});
        continue;
      }
      open.push_back({part.begin + half->second, part.length - half->second});
      open.push_back({part.begin, half->second});
    }
  }

  const PieceTable& table_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::vector<Pair> heap_;
  std::unordered_map<std::string_view, std::uint32_t> halves_;  // of unused pieces: the length of the left one
};

class BpePieces final : public PieceEncoder {
 public:
  BpePieces(const PieceTable& table, const UserSymbols& symbols) : table_(table), symbols_(symbols) {}

  void encode(std::string_view text, std::vector<TextPiece>& pieces) const override {
    PieceMerger merger(table_, symbols_, text);
    merger.merge();
    merger.append(pieces);
  }

 private:
  const PieceTable& table_;
  const UserSymbols& symbols_;
};

}  // namespace

std::unique_ptr<PieceEncoder> make_bpe_pieces(const PieceTable& table, const UserSymbols& symbols) {
  return std::make_unique<BpePieces>(table, symbols);
}

}  // namespace headway::inline v0::internal
