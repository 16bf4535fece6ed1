// Decoders of tokenizer.json: tokens back to a text, one token at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

class Json;

// A step of a decoder at work. What it gives goes to the next step, the last one's to a text.
class DecoderStage {
 public:
  virtual ~DecoderStage() = default;
  // A whole token or, where the steps before it join tokens, a part of the one that they make.
  virtual void add(std::string_view piece) = 0;
  virtual void finish() { next_->finish(); }
  void set_next(DecoderStage* next) { next_ = next; }

 protected:
  DecoderStage* next_ = nullptr;
};

// What a file says of a step.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  // `fused`: the tokens are parts of one.
  virtual std::unique_ptr<DecoderStage> begin(bool fused) const = 0;
  // Whether its tokens are one token.
  virtual bool fuses() const { return false; }
};

// The steps at work on one text.
class Decoding {
 public:
  explicit Decoding(const std::vector<std::unique_ptr<DecoderStep>>& steps);
  void add(std::string_view token) { stages_.front()->add(token); }
  void finish() { stages_.front()->finish(); }
  // The text so far, which is certain; what comes later continues it.
  std::string take();

 private:
  std::vector<std::unique_ptr<DecoderStage>> stages_;
  std::unique_ptr<std::string> text_;
};

// The decoder of a JSON object, or what null means: tokens with spaces between; Errors begin with `about`.
std::vector<std::unique_ptr<DecoderStep>> read_decoder(const Json* json, const std::string& about);

}  // namespace headway::inline v0::internal
