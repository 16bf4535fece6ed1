#include "text/tokenizer/decoder.h"

#include <utility>

#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

void replace_all(std::string& text, std::string_view old, std::string_view made) {
  if (old.empty()) return;
  for (std::size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += made.size()) {
    text.replace(at, old.size(), made);
  }
}

// The last stage.
class TextStage : public DecoderStage {
 public:
  explicit TextStage(std::string& text) : text_(text) {}
  void add(std::string_view piece) override { text_ += piece; }
  void finish() override {}

 private:
  std::string& text_;
};

// Tokens one by one; `first` is the token's number being 0.
class TokenwiseStage : public DecoderStage {
 public:
  explicit TokenwiseStage(bool fused) : fused_(fused) {}
  void add(std::string_view piece) final {
    change(piece, first_);
    if (!fused_) first_ = false;
  }

 protected:
  virtual void change(std::string_view token, bool first) = 0;

 private:
  bool fused_;  // then all parts are of the first token
  bool first_ = true;
};

// Keeps the parts of one token until it is whole.
class WholeTokenStage : public DecoderStage {
 public:
  explicit WholeTokenStage(std::unique_ptr<DecoderStage> inner) : inner_(std::move(inner)) {}
  void add(std::string_view piece) override { token_ += piece; }
  void finish() override {
    inner_->set_next(next_);
    if (!token_.empty()) inner_->add(token_);
    inner_->finish();
  }

 private:
  std::unique_ptr<DecoderStage> inner_;
  std::string token_;
};

template <typename Stage, typename... Arguments>
std::unique_ptr<DecoderStage> whole_if(bool fused, Arguments&&... arguments) {
  auto stage = std::make_unique<Stage>(std::forward<Arguments>(arguments)...);
  if (!fused) return stage;
  return std::make_unique<WholeTokenStage>(std::move(stage));
}

class JoinStep : public DecoderStep {
  class Stage : public TokenwiseStage {
   public:
    using TokenwiseStage::TokenwiseStage;
    void change(std::string_view token, bool first) override {
      if (!first) next_->add(" ");
      next_->add(token);
    }
  };

 public:
  std::unique_ptr<DecoderStage> begin(bool fused) const override { return std::make_unique<Stage>(fused); }
};

class WordPieceStep : public DecoderStep {
  class Stage : public TokenwiseStage {
   public:
    explicit Stage(const WordPieceStep& step) : TokenwiseStage(false), step_(step) {}
    void change(std::string_view token, bool first) override {
      text_.clear();
      if (!first) {
        if (token.starts_with(step_.prefix_)) {
          token.remove_prefix(step_.prefix_.size());
        } else {
          text_ = " ";
        }
      }
      text_ += token;
      if (step_.cleanup_) clean_up(text_);
      next_->add(text_);
    }

   private:
    const WordPieceStep& step_;
    std::string text_;
  };

  static void clean_up(std::string& text) {
    if (text.find_first_of(".?!,'nd") == std::string::npos) return;
    constexpr std::pair<std::string_view, std::string_view> kRules[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [old, made] : kRules) replace_all(text, old, made);
  }

 public:
  WordPieceStep(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  std::unique_ptr<DecoderStage> begin(bool fused) const override { return whole_if<Stage>(fused, *this); }

 private:
  std::string prefix_;
  bool cleanup_;
};

class ByteLevelStep : public DecoderStep {
  class Stage : public DecoderStage {
   public:
    void add(std::string_view token) override {
      const std::size_t before = bytes_.size();
      std::string_view rest = token;
      while (!rest.empty()) {
        const int byte = byte_of_character(next_character(rest));
        if (byte < 0) {  // not of this alphabet: as it is
          bytes_.resize(before);
          bytes_ += token;
          break;
        }
        bytes_.push_back(static_cast<char>(byte));
      }
      give(false);
    }
    void finish() override {
      give(true);
      next_->finish();
    }

   private:
    // Gives whole characters; bytes that may begin one wait.
    void give(bool all) {
      std::size_t end = bytes_.size();
      if (!all) end = complete_length(bytes_);
      if (end == 0) return;
      next_->add(repaired_utf8(std::string_view(bytes_).substr(0, end)));
      bytes_.erase(0, end);
    }
    static std::size_t complete_length(std::string_view bytes) {
      // At most the last three bytes can be the begin of a character.
      for (std::size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
        const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
        if ((byte & 0xC0) == 0x80) continue;
        const std::size_t length = byte < 0xC2 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : byte < 0xF5 ? 4 : 1;
        return length > back ? bytes.size() - back : bytes.size();
      }
      return bytes.size();
    }

    std::string bytes_;
  };

 public:
  std::unique_ptr<DecoderStage> begin(bool fused) const override { return whole_if<Stage>(fused); }
  bool fuses() const override { return true; }
};

class MetaspaceStep : public DecoderStep {
  class Stage : public TokenwiseStage {
   public:
    Stage(const MetaspaceStep& step, bool fused) : TokenwiseStage(fused), step_(step) {}
    void change(std::string_view token, bool first) override {
      text_ = token;
      replace_all(text_, step_.mark_, first && step_.prepends_ ? "" : " ");
      next_->add(text_);
    }

   private:
    const MetaspaceStep& step_;
    std::string text_;
  };

 public:
  MetaspaceStep(char32_t mark, bool prepends) : prepends_(prepends) { append_utf8(mark_, mark); }
  std::unique_ptr<DecoderStage> begin(bool fused) const override { return std::make_unique<Stage>(*this, fused); }

 private:
  std::string mark_;
  bool prepends_;
};

// The suffix of words becomes a space, but not in the last token.
class BpeStep : public DecoderStep {
  class Stage : public DecoderStage {
   public:
    explicit Stage(const BpeStep& step) : step_(step) {}
    void add(std::string_view token) override {
      if (any_) give(" ");
      any_ = true;
      waiting_ = token;
    }
    void finish() override {
      if (any_) give("");
      next_->finish();
    }

   private:
    void give(std::string_view space) {
      replace_all(waiting_, step_.suffix_, space);
      next_->add(waiting_);
    }
    const BpeStep& step_;
    std::string waiting_;
    bool any_ = false;
  };

 public:
  explicit BpeStep(std::string suffix) : suffix_(std::move(suffix)) {}
  std::unique_ptr<DecoderStage> begin(bool fused) const override { return whole_if<Stage>(fused, *this); }

 private:
  std::string suffix_;
};

// Tokens <0x00> .. <0xFF> become bytes. A run of them that is not UTF-8 as a whole becomes one U+FFFD a byte, so a run
// waits for its end.
class ByteFallbackStep : public DecoderStep {
  class Stage : public DecoderStage {
   public:
    void add(std::string_view token) override {
      const int byte = byte_of(token);
      if (byte >= 0) {
        bytes_.push_back(static_cast<char>(byte));
        return;
      }
      give();
      next_->add(token);
    }
    void finish() override {
      give();
      next_->finish();
    }

   private:
    static int byte_of(std::string_view token) {
      if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
      const auto digit = [](char c) {
        return c >= '0' && c <= '9'   ? c - '0'
               : c >= 'a' && c <= 'f' ? c - 'a' + 10
               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                      : -1;
      };
      const int high = token[3] == '+' ? 0 : digit(token[3]), low = digit(token[4]);
      return high < 0 || low < 0 ? -1 : 16 * high + low;
    }
    void give() {
      if (bytes_.empty()) return;
      if (is_utf8(bytes_)) {
        next_->add(bytes_);
      } else {
        for (std::size_t n = 0; n < bytes_.size(); ++n) next_->add("\xEF\xBF\xBD");
      }
      bytes_.clear();
    }
    std::string bytes_;
  };

 public:
  std::unique_ptr<DecoderStage> begin(bool fused) const override { return whole_if<Stage>(fused); }
};

class FuseStep : public DecoderStep {
  class Stage : public DecoderStage {
   public:
    void add(std::string_view piece) override { next_->add(piece); }
  };

 public:
  std::unique_ptr<DecoderStage> begin(bool) const override { return std::make_unique<Stage>(); }
  bool fuses() const override { return true; }
};

// Takes up to `start` characters from the begin of each token, and up to `stop` from its end.
class StripStep : public DecoderStep {
  class Stage : public DecoderStage {
   public:
    Stage(const StripStep& step, bool fused) : step_(step), fused_(fused), left_(step.start_) {}
    void add(std::string_view piece) override {
      if (!fused_) left_ = step_.start_;
      const std::string& mark = step_.mark_;
      for (; left_ > 0 && piece.starts_with(mark); --left_) piece.remove_prefix(mark.size());
      if (piece.empty()) return;
      left_ = 0;
      // Marks at the end wait: they are stripped only where the token ends with them.
      waiting_ += piece;
      std::size_t end = waiting_.size(), count = 0;
      for (; count < step_.stop_ && std::string_view(waiting_).substr(0, end).ends_with(mark); ++count)
        end -= mark.size();
      if (end > 0) next_->add(std::string_view(waiting_).substr(0, end));
      waiting_.erase(0, fused_ ? end : waiting_.size());
    }

   private:
    const StripStep& step_;
    bool fused_;
    std::size_t left_;
    std::string waiting_;
  };

 public:
  StripStep(char32_t mark, std::size_t start, std::size_t stop) : start_(start), stop_(stop) {
    append_utf8(mark_, mark);
  }
  std::unique_ptr<DecoderStage> begin(bool fused) const override { return std::make_unique<Stage>(*this, fused); }

 private:
  std::string mark_;
  std::size_t start_, stop_;
};

class ReplaceStep : public DecoderStep {
  class Stage : public DecoderStage {
   public:
    explicit Stage(const ReplaceStep& step) : step_(step) {}
    void add(std::string_view token) override {
      parts_.clear();
      text_.clear();
      step_.pattern_->parts_of(token, 0, parts_);
      for (const MatchedPart& part : parts_) {
        text_ += part.matched ? std::string_view(step_.content_) : token.substr(part.begin, part.end - part.begin);
      }
      next_->add(text_);
    }

   private:
    const ReplaceStep& step_;
    std::vector<MatchedPart> parts_;
    std::string text_;
  };

 public:
  ReplaceStep(std::unique_ptr<TextPattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  std::unique_ptr<DecoderStage> begin(bool fused) const override { return whole_if<Stage>(fused, *this); }

 private:
  std::unique_ptr<TextPattern> pattern_;
  std::string content_;
};

std::unique_ptr<DecoderStep> read_step(const Json& json, const std::string& about) {
  const std::string type = type_of(json, about), named = about + " " + type;
  if (type == "WordPiece") {
    return std::make_unique<WordPieceStep>(string_field(json, "prefix", named, "##"),
                                           flag_field(json, "cleanup", named, true));
  }
  if (type == "ByteLevel") return std::make_unique<ByteLevelStep>();
  if (type == "Metaspace") {
    const bool never = string_field(json, "prepend_scheme", named, "always") == "never" ||
                       !flag_field(json, "add_prefix_space", named, true);
    return std::make_unique<MetaspaceStep>(character_field(json, "replacement", named), !never);
  }
  if (type == "BPEDecoder") return std::make_unique<BpeStep>(string_field(json, "suffix", named, "</w>"));
  if (type == "ByteFallback") return std::make_unique<ByteFallbackStep>();
  if (type == "Fuse") return std::make_unique<FuseStep>();
  if (type == "Strip") {
    return std::make_unique<StripStep>(character_field(json, "content", named),
                                       static_cast<std::size_t>(count_field(json, "start", named)),
                                       static_cast<std::size_t>(count_field(json, "stop", named)));
  }
  if (type == "Replace") {
    const Json* pattern = field_of(json, "pattern");
    check(pattern != nullptr, named, ": has no \"pattern\"");
    return std::make_unique<ReplaceStep>(read_pattern(*pattern, named), string_field(json, "content", named));
  }
  fail(about, ": \"", shortened(type, 50),
       "\" is not known, expected BPEDecoder, ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip or "
       "WordPiece");
}

void read_steps(const Json& json, const std::string& about, std::vector<std::unique_ptr<DecoderStep>>& steps) {
  constexpr std::size_t kMostSteps = 100;
  if (type_of(json, about) != "Sequence") {
    check(steps.size() < kMostSteps, about, ": has more than ", kMostSteps, " steps");
    steps.push_back(read_step(json, about));
    return;
  }
  for (const Json& step : array_field(json, "decoders", about)) read_steps(step, about, steps);
}

}  // namespace

std::vector<std::unique_ptr<DecoderStep>> read_decoder(const Json* json, const std::string& about) {
  std::vector<std::unique_ptr<DecoderStep>> steps;
  if (json == nullptr || json->is_null()) {
    steps.push_back(std::make_unique<JoinStep>());
  } else {
    read_steps(*json, about, steps);
  }
  return steps;
}

Decoding::Decoding(const std::vector<std::unique_ptr<DecoderStep>>& steps) : text_(std::make_unique<std::string>()) {
  bool fused = false;
  for (const auto& step : steps) {
    stages_.push_back(step->begin(fused));
    fused = fused || step->fuses();
  }
  stages_.push_back(std::make_unique<TextStage>(*text_));
  for (std::size_t n = 0; n + 1 < stages_.size(); ++n) stages_[n]->set_next(stages_[n + 1].get());
}

std::string Decoding::take() { return std::exchange(*text_, {}); }

}  // namespace headway::inline v0::internal
