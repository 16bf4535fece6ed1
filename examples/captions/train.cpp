// Captions of emoji: a ViT reads the picture in 36 patches, a GPT-2 writes what it shows. Trained from nothing.
//
//   example_captions train DATA [--output DIR] [--steps N] [--batch N] [--seed N] [--resume]
//   example_captions evaluate DATA MODEL [--side PIXELS] [--background 0..1] [--show]
//   example_captions split DATA
//
// DATA is the folder of emoji-captions.zip.
#include <headway/media.h>

#include <algorithm>
#include <fstream>
#include <iostream>

#include "captions/emoji.h"
#include "captions/evaluate.h"
#include "captions/pictures.h"
#include "captions/vocabulary.h"
#include "support/program.h"

namespace captions {
namespace {

constexpr std::int64_t kIgnored = -100;  // as a target: padding
constexpr std::int64_t kLongest = 48;    // positions of the decoder

// The layout of VisionEncoderDecoderModel: 37 positions of the encoder, the class token's and those of 6 x 6 patches.
std::string config_json(std::int64_t vocabulary) {
  const std::string size = std::to_string(vocabulary), longest = std::to_string(kLongest);
  return R"({
  "model_type": "vision-encoder-decoder",
  "architectures": ["VisionEncoderDecoderModel"],
  "is_encoder_decoder": true,
  "decoder_start_token_id": 1,
  "bos_token_id": 1,
  "eos_token_id": 2,
  "pad_token_id": 0,
  "tie_word_embeddings": true,
  "encoder": {
    "model_type": "vit",
    "image_size": 72,
    "patch_size": 12,
    "num_channels": 3,
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0
  },
  "decoder": {
    "model_type": "gpt2",
    "is_decoder": true,
    "add_cross_attention": true,
    "vocab_size": )" +
         size + R"(,
    "n_positions": )" +
         longest + R"(,
    "n_embd": 128,
    "n_layer": 2,
    "n_head": 4,
    "n_inner": 256,
    "resid_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0
  }
}
)";
}

std::string generation_config_json() {
  return R"({
  "decoder_start_token_id": 1,
  "bos_token_id": 1,
  "eos_token_id": 2,
  "pad_token_id": 0,
  "max_new_tokens": 40
}
)";
}

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream output(file, std::ios::binary);
  output << text;
  output.close();
  if (!output) throw headway::Error(file.string() + ": cannot be written");
}

// The batches of a run; each follows from its number and the seed alone.
class Batches {
 public:
  Batches(const std::vector<Emoji>& emoji, const headway::TextTokenizer& tokenizer, std::int64_t size,
          std::uint64_t seed)
      : pictures_(emoji), order_(seed, static_cast<std::int64_t>(emoji.size())), size_(size), seed_(seed) {
    for (const Emoji& item : emoji) {
      sequences_.push_back(tokenizer.encode(item.caption));
      sequences_.back().push_back(kEnd);
    }
  }

  struct Batch {
    headway::Tensor pictures;  // float32 [batch, 3, 72, 72]
    headway::Tensor read;      // int64 [batch, length]: <s>, then the caption
    headway::Tensor expected;  // int64 [batch, length]: the caption, then </s>; kIgnored behind it
  };
  Batch at(std::int64_t index) {
    Batch batch = {.pictures = headway::Tensor::empty({size_, 3, kSide, kSide}), .read = {}, .expected = {}};
    std::vector<std::int64_t> items;
    std::size_t longest = 0;
    for (std::int64_t row = 0; row < size_; ++row) {
      const std::int64_t place = index * size_ + row;
      items.push_back(order_.at(place));
      pictures_.augment(items.back(), seed_, place, batch.pictures.data<float>() + row * 3 * kSide * kSide);
      longest = std::max(longest, sequences_[static_cast<std::size_t>(items.back())].size());
    }
    std::vector<std::int64_t> read, expected;
    for (const std::int64_t item : items) {
      const std::vector<std::int64_t>& sequence = sequences_[static_cast<std::size_t>(item)];
      for (std::size_t i = 0; i < longest; ++i) {
        read.push_back(i == 0 ? kBegin : i < sequence.size() ? sequence[i - 1] : kPad);
        expected.push_back(i < sequence.size() ? sequence[i] : kIgnored);
      }
    }
    const headway::Shape shape = {size_, static_cast<std::int64_t>(longest)};
    batch.read = headway::Tensor::from(read, shape);
    batch.expected = headway::Tensor::from(expected, shape);
    return batch;
  }

 private:
  Pictures pictures_;
  ItemOrder order_;
  std::vector<std::vector<std::int64_t>> sequences_;
  std::int64_t size_;
  std::uint64_t seed_;
};

int train(example::Arguments& arguments) {
  if (arguments.files().size() != 1) throw headway::Error("train: expected DATA, the folder with captions.tsv");
  example::TrainingRun run = {.output = "emoji-captions", .steps = 24000, .learning_rate = 1e-3, .weight_decay = 0.05};
  run.read(arguments);
  const std::int64_t size = arguments.integer("batch", 32);
  arguments.check_all_used();
  if (size < 1) throw headway::Error("--batch is " + std::to_string(size) + ", expected 1 or more");

  const std::vector<Emoji> emoji = part_of(read_emoji(arguments.files()[0]), Part::train);
  std::vector<std::string> texts;
  for (const Emoji& item : emoji) texts.push_back(item.caption);
  std::filesystem::create_directories(run.output);
  write(run.output / "tokenizer.json", tokenizer_json(texts));
  write(run.output / "tokenizer_config.json", tokenizer_config_json());
  const headway::TextTokenizer tokenizer = headway::TextTokenizer::load(run.output);
  headway::PictureInput{.height = kSide, .width = kSide}.save(run.output);

  headway::set_random_seed(run.seed);
  const headway::TransformerModel model = headway::TransformerModel::from_config(config_json(tokenizer.size()));
  std::int64_t parameters = 0;
  for (const headway::Tensor& parameter : model.parameters()) parameters += parameter.element_count();
  std::cerr << emoji.size() << " pictures for training, " << tokenizer.size() << " tokens, " << parameters
            << " parameters\n";
  if (run.steps > 0) {
    Batches batches(emoji, tokenizer, size, run.seed);
    example::train(model, run, [&](const headway::BatchPosition& position) {
      const Batches::Batch batch = batches.at(position.index);
      const headway::Tensor logits = model.forward({.features = batch.pictures, .target = batch.read}).logits;
      return headway::BatchLoss{.loss = headway::cross_entropy(logits, batch.expected, {.ignore_index = kIgnored}),
                                .tokens = batch.expected.element_count()};
    });
  }
  model.save(run.output, headway::DType::float16);
  write(run.output / "generation_config.json", generation_config_json());
  std::cout << run.output.string() << " written\n";
  return 0;
}

int evaluate(example::Arguments& arguments) {
  if (arguments.files().size() != 2) throw headway::Error("evaluate: expected DATA and MODEL");
  EvaluationOptions options;
  options.side = arguments.integer("side", options.side);
  options.background = arguments.real("background", options.background);
  options.show_wrong = arguments.flag("show");
  arguments.check_all_used();
  evaluate(arguments.files()[1], read_emoji(arguments.files()[0]), options);
  return 0;
}

int split(example::Arguments& arguments) {
  if (arguments.files().size() != 1) throw headway::Error("split: expected DATA");
  arguments.check_all_used();
  for (const Emoji& item : read_emoji(arguments.files()[0])) {
    const char* const part = item.part == Part::train ? "train" : item.part == Part::kind ? "kind" : "combination";
    std::cout << item.picture.filename().string() << '\t' << part << '\n';
  }
  return 0;
}

int main(int count, char** words) {
  example::Arguments arguments(count, words);
  if (arguments.command() == "train") return train(arguments);
  if (arguments.command() == "evaluate") return evaluate(arguments);
  if (arguments.command() == "split") return split(arguments);
  throw headway::Error("the command is \"" + arguments.command() + "\", expected train, evaluate or split");
}

}  // namespace
}  // namespace captions

int main(int count, char** words) {
  return example::run([&] { return captions::main(count, words); });
}
