// Learning pieces from sentences.
#include <sentencepiece_trainer.h>

#include <unordered_map>

#include "base/check.h"
#include "base/files.h"
#include "base/utf8.h"
#include "text/child_process.h"
#include "text/sentence_pieces.h"

namespace headway::inline v0 {
namespace {

// The trainer sums counts thread by thread, so the number of threads changes rounding and with it the pieces. It is the
// same on every machine.
constexpr int kTrainingThreads = 8;
// The trainer silently leaves out longer sentences (in bytes), so they are refused.
constexpr int kLongestSentence = 1 << 20;
// The log level at which the trainer prints nothing but messages that end the program.
constexpr int kFatalOnly = 3;

constexpr std::string_view kNormalizations[] = {"nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"};

class Sentences : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& sentences) : sentences_(sentences) {}
  bool done() const override { return next_ == sentences_.size(); }
  void Next() override { ++next_; }
  const std::string& value() const override { return sentences_[next_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& sentences_;
  std::size_t next_ = 0;
};

void check_arguments(const std::vector<std::string>& sentences, const PieceTrainingOptions& options) {
  using internal::check;
  bool known = false;
  for (const std::string_view name : kNormalizations) known = known || name == options.normalization;
  check(known, "normalization is \"", options.normalization,
        "\", expected nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity");
  check(options.character_coverage >= 0.9 && options.character_coverage <= 1.0, "character_coverage is ",
        options.character_coverage, ", expected 0.9 to 1");
  const std::int64_t smallest = options.byte_fallback ? 300 : 8;
  check(options.vocab_size >= smallest && options.vocab_size <= 1'000'000, "vocab_size is ", options.vocab_size,
        ", expected ", smallest, " to 1000000", options.byte_fallback ? " (256 bytes come first)" : "");
  bool anything = false;
  for (std::size_t n = 0; n < sentences.size(); ++n) {
    check(internal::is_utf8(sentences[n]), "sentence ", n, " is not UTF-8");
    check(sentences[n].size() <= kLongestSentence, "sentence ", n, " has ", sentences[n].size(),
          " bytes, expected at most ", kLongestSentence);
    anything = anything || !internal::is_blank(sentences[n]);
  }
  check(anything, "there are ", sentences.size(), " sentences and no characters in them");
}

// The trainer's message without the source location in front, which ends with a bracket. Once the arguments are
// checked, only the number of pieces can still be wrong.
std::string reason_of(const std::string& message) {
  const std::size_t bracket = message.find("] ");
  return bracket == std::string::npos ? message : message.substr(bracket + 2);
}

}  // namespace

SentencePieces SentencePieces::train(const std::vector<std::string>& sentences, const std::filesystem::path& file,
                                     const PieceTrainingOptions& options) {
  check_arguments(sentences, options);
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type", options.kind == PieceKind::bpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(options.vocab_size)},
      {"character_coverage", std::to_string(options.character_coverage)},
      {"byte_fallback", options.byte_fallback ? "true" : "false"},
      {"normalization_rule_name", options.normalization},
      {"unk_id", std::to_string(options.ids.unk)},
      {"eos_id", std::to_string(options.ids.eos)},
      {"bos_id", "-1"},  // encoder-decoders have none
      {"pad_id", std::to_string(options.ids.pad)},
      {"num_threads", std::to_string(kTrainingThreads)},
      {"max_sentence_length", std::to_string(kLongestSentence)},
      {"minloglevel", std::to_string(kFatalOnly)},
  };
  // The trainer's threads catch no exception, so that one that gets no memory would end the whole program.
  const auto train_pieces = [&]() -> std::string {
    Sentences iterator(sentences);
    std::string model;
    const auto status = sentencepiece::SentencePieceTrainer::Train(arguments, &iterator, &model);
    if (!status.ok()) internal::fail("vocab_size is ", options.vocab_size, ": ", reason_of(status.ToString()));
    return model;
  };
  std::string bytes = internal::run_in_child(train_pieces, "learning pieces");
  SentencePieces pieces(Model::parse(std::move(bytes), file.string()));
  internal::replace_file(file, pieces.bytes());
  return pieces;
}

}  // namespace headway::inline v0
