// A ViT learns digits of 8 by 8 pixels.
//   example_digits train DATA [--output DIR] [--steps N] [--seed N] [--resume] ...
//   example_digits evaluate DATA MODEL
//   example_digits attend PICTURE MODEL [--html FILE] [--svg FILE [--layer N]]     what the class token looks at
#include <headway/media.h>

#include <cstdio>
#include <iostream>

#include "digits/digits.h"
#include "support/files.h"
#include "support/program.h"

namespace {

using headway::Tensor;

constexpr std::int64_t kBatch = 64;

// 169,162 parameters: 16 patches of 2 by 2 pixels and the class token, four layers of width 64.
constexpr const char* kConfig = R"({
  "model_type": "vit", "architectures": ["ViTForImageClassification"],
  "image_size": 8, "patch_size": 2, "num_channels": 1, "hidden_size": 64, "num_hidden_layers": 4,
  "num_attention_heads": 4, "intermediate_size": 192, "hidden_act": "gelu", "layer_norm_eps": 1e-06, "qkv_bias": true,
  "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.0, "initializer_range": 0.06,
  "id2label": {"0": "0", "1": "1", "2": "2", "3": "3", "4": "4", "5": "5", "6": "6", "7": "7", "8": "8", "9": "9"},
  "label2id": {"0": 0, "1": 1, "2": 2, "3": 3, "4": 4, "5": 5, "6": 6, "7": 7, "8": 8, "9": 9}
})";

void evaluate(const headway::TransformerModel& model, const std::vector<digits::Digit>& all) {
  const std::vector<std::size_t> rows = digits::part(all, /*test=*/true);
  const headway::NoGradGuard guard;
  const Tensor best = argmax(model.forward({.features = digits::pictures(all, rows)}).logits, 1);
  std::size_t right = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto answer = static_cast<std::int64_t>(best.at({static_cast<std::int64_t>(i)}));
    right += answer == all[rows[i]].label;
    if (answer != all[rows[i]].label) {
      std::printf("row %zu: %lld taken for %lld\n", rows[i] + 1, static_cast<long long>(all[rows[i]].label),
                  static_cast<long long>(answer));
    }
  }
  std::printf("%zu of %zu right: %.2f%%\n", right, rows.size(),
              100.0 * static_cast<double>(right) / static_cast<double>(rows.size()));
}

// The rows of a batch: an epoch is all rows of training in an order of its own, without the last few.
std::vector<std::size_t> batch_rows(const std::vector<std::size_t>& training, std::int64_t index, std::uint64_t seed) {
  const auto size = std::min(static_cast<std::int64_t>(training.size()), kBatch);
  const std::int64_t per_epoch = static_cast<std::int64_t>(training.size()) / size;
  const auto epoch = static_cast<std::uint64_t>(index / per_epoch);
  const std::vector<std::size_t> order = example::shuffled(training.size(), {seed, epoch, 0});
  std::vector<std::size_t> rows;
  for (std::int64_t i = 0; i < size; ++i) {
    rows.push_back(training[order[static_cast<std::size_t>(index % per_epoch * size + i)]]);
  }
  return rows;
}

int train(example::Arguments& arguments) {
  example::TrainingRun run = {.output = "digits-model", .steps = 3500, .learning_rate = 2e-3, .weight_decay = 0.05};
  run.read(arguments);
  arguments.check_all_used();
  if (arguments.files().size() != 1) throw headway::Error("train: expected the folder of digits.csv");
  const std::vector<digits::Digit> all = digits::read(arguments.files()[0]);
  const std::vector<std::size_t> training = digits::part(all, /*test=*/false);
  headway::set_random_seed(run.seed);
  const headway::TransformerModel model = headway::TransformerModel::from_config(kConfig);
  std::printf("%zu pictures, %lld parameters\n", training.size(), static_cast<long long>(model.parameter_count()));
  example::train(model, run, [&](const headway::BatchPosition& position) -> headway::BatchLoss {
    const std::vector<std::size_t> rows = batch_rows(training, position.index, run.seed);
    const auto count = static_cast<std::int64_t>(rows.size());
    const Tensor pixels = Tensor::empty({count, 1, digits::kSide, digits::kSide});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      digits::draw_changed(all[rows[i]], {run.seed + 1, static_cast<std::uint64_t>(position.index), i},
                           pixels.data<float>() + static_cast<std::int64_t>(i) * digits::kPixels);
    }
    const Tensor logits = model.forward({.features = pixels}).logits;  // [batch, 10]
    return {.loss = cross_entropy(logits, digits::labels(all, rows), {.label_smoothing = 0.1}), .tokens = count};
  });
  model.eval();
  model.save(run.output, headway::DType::float16);
  headway::PictureInput{
      .channels = 1, .height = digits::kSide, .width = digits::kSide, .mean = {0.5}, .deviation = {0.5}}
      .save(run.output);
  evaluate(model, all);
  return 0;
}

int evaluate(example::Arguments& arguments) {
  arguments.check_all_used();
  if (arguments.files().size() != 2) throw headway::Error("evaluate: expected the folder of digits.csv and a model");
  evaluate(headway::TransformerModel::load(arguments.files()[1], {.dtype = headway::DType::float32}),
           digits::read(arguments.files()[0]));
  return 0;
}

// The attention among the class token and the 16 patches, which are shown on the picture.
headway::AttentionRecord record_of(const headway::PictureClassifier& classifier, const headway::Picture& picture,
                                   const std::string& label) {
  const headway::NoGradGuard guard;
  const Tensor pixels = headway::picture_tensor(picture, classifier.input()).unsqueeze(0);
  const headway::ModelResult result =
      classifier.model().forward({.features = pixels, .weights = headway::Weights::per_head});
  const Tensor large = headway::resize(picture.pixels, 256, 256, headway::Resampling::nearest);
  headway::AttentionRecord record = headway::attention_record(result, {.medium = {.kind = headway::MediumKind::picture,
                                                                                  .png = headway::encode_png(large),
                                                                                  .first = 1,
                                                                                  .rows = 4,
                                                                                  .columns = 4}});
  record.source = "a picture of the digit " + label;
  return record;
}

int attend(example::Arguments& arguments) {
  const std::string html = arguments.text("html", ""), svg = arguments.text("svg", "");
  const std::int64_t layer = arguments.integer("layer", 4);
  arguments.check_all_used();
  if (arguments.files().size() != 2) throw headway::Error("attend: expected a picture and a model");
  const std::string& file = arguments.files()[0];
  const headway::PictureClassifier classifier(arguments.files()[1], {.dtype = headway::DType::float32});
  const std::int64_t layers = static_cast<std::int64_t>(classifier.model().options().encoder.layers.size());
  if (layer < 1 || layer > layers) {
    throw headway::Error("--layer is " + std::to_string(layer) + ", expected 1 to " + std::to_string(layers));
  }
  const headway::Picture picture = headway::read_picture(file, 1);
  const std::vector<headway::Picture> one = {picture};
  const headway::PictureClassification found = classifier.classify(one).front();
  if (!found.notes.empty()) std::fprintf(stderr, "note: %s: %s\n", file.c_str(), found.notes.c_str());
  std::printf("%s: %s (%.1f%%)\n", file.c_str(), found.label().c_str(), 100.0 * found.score());
  const headway::AttentionRecord record = record_of(classifier, picture, found.label());
  if (!html.empty()) example::write_text(html, headway::attention_html(record));
  if (!svg.empty()) example::write_text(svg, headway::attention_svg(record, {.layer = layer - 1}));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  return example::run([&] {
    example::Arguments arguments(count, words);
    if (arguments.command() == "train") return train(arguments);
    if (arguments.command() == "evaluate") return evaluate(arguments);
    if (arguments.command() == "attend") return attend(arguments);
    throw headway::Error("expected train, evaluate or attend, as: example_digits train DATA --output DIR");
  });
}
