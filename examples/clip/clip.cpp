// Emoji and their names in one space, and yes/no questions on pictures.
//   example_clip train DATA [--output DIR] [--steps N] [--batch N] [--seed N] [--resume] ...
//   example_clip train-questions DATA MODEL [--steps N] [--seed N] [--resume] ...    adds ask.safetensors to MODEL
//   example_clip evaluate DATA MODEL                  recall among the unseen pictures; answers on them
//   example_clip search "TEXT" PICTURE... --model MODEL     the pictures that fit a text best, of files and folders
//   example_clip ask PICTURE "is there a hat?" --model MODEL [--html FILE] [--svg FILE]
#include <headway/clip_model.h>
#include <headway/media.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "clip/emoji.h"
#include "clip/questions.h"
#include "clip/words.h"
#include "support/files.h"
#include "support/program.h"

namespace {

using emoji::Emoji;
using emoji::Tensor;
using Numbers = std::vector<std::size_t>;

constexpr std::int64_t kLongestText = 24;  // tokens

// Pictures: 36 patches of 12 by 12 pixels and the class token, four layers of width 128. Texts: two layers of width 96.
std::string config(std::int64_t words) {
  return R"({
  "model_type": "clip", "architectures": ["CLIPModel"], "projection_dim": 96, "logit_scale_init_value": 2.6592,
  "text_config": {"model_type": "clip_text_model", "vocab_size": )" +
         std::to_string(words) + R"(, "hidden_size": 96, "intermediate_size": 384, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 24, "hidden_act": "gelu", "layer_norm_eps": 1e-05,
    "projection_dim": 96, "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0},
  "vision_config": {"model_type": "clip_vision_model", "image_size": 72, "patch_size": 12, "num_channels": 3,
    "hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4,
    "hidden_act": "gelu", "layer_norm_eps": 1e-05, "projection_dim": 96}
})";
}

headway::ClipModel load_clip(const std::filesystem::path& directory) {
  return headway::ClipModel::load(directory, {.dtype = headway::DType::float32});
}

// [texts, projection]
Tensor embed(const headway::ClipModel& clip, const emoji::TokenBatch& texts) {
  return clip.embed_texts(texts.tokens, texts.lengths).embeddings;
}

std::vector<std::string> captions_of(const std::vector<Emoji>& all, const Numbers& part) {
  std::vector<std::string> captions;
  for (const std::size_t i : part) captions.push_back(all[i].caption);
  return captions;
}

// Rows of normalised features [pictures, shared], a few at a time.
Tensor features_of(const headway::ClipModel& clip, const std::vector<Emoji>& all, const Numbers& part) {
  const headway::NoGradGuard guard;
  std::vector<Tensor> rows;
  for (std::size_t first = 0; first < part.size(); first += 100) {
    const Numbers some(part.begin() + static_cast<std::ptrdiff_t>(first),
                       part.begin() + static_cast<std::ptrdiff_t>(std::min(first + 100, part.size())));
    rows.push_back(clip.embed_pictures(emoji::pictures(all, some)).embeddings);
  }
  return headway::concat(rows);
}

// How often row i of [pictures, captions] is greatest at column i, and column i at row i, over the pictures that
// `counts` accepts.
struct Recall {
  std::size_t count = 0, to_caption = 0, to_picture = 0;
  void print(const char* name) const {
    const auto percent = [&](std::size_t right) {
      return 100.0 * static_cast<double>(right) / static_cast<double>(std::max<std::size_t>(count, 1));
    };
    std::printf("%-22s %4zu  picture to caption %5.1f%%  caption to picture %5.1f%%\n", name, count,
                percent(to_caption), percent(to_picture));
  }
};

// Recall@1 of a part's captions among all captions of that part, and of its pictures likewise.
void print_recall(const headway::ClipModel& clip, const headway::TextTokenizer& tokenizer,
                  const std::vector<Emoji>& all, const Numbers& part) {
  const headway::NoGradGuard guard;
  const Tensor texts = embed(clip, emoji::token_batch(tokenizer, captions_of(all, part), kLongestText));
  const Tensor scores = matmul(features_of(clip, all, part), texts.transpose(0, 1));  // [pictures, captions]
  const Tensor captions = argmax(scores, 1), pictures = argmax(scores, 0);
  Recall every, toned, others;
  for (std::size_t i = 0; i < part.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    for (Recall* recall : {&every, emoji::has_skin_tone(all[part[i]]) ? &toned : &others}) {
      ++recall->count;
      recall->to_caption += static_cast<std::int64_t>(captions.at({number})) == number;
      recall->to_picture += static_cast<std::int64_t>(pictures.at({number})) == number;
    }
  }
  every.print("recall@1");
  toned.print("  new combinations");
  others.print("  new kinds");
}

// The logits' scale is kept at 100 and below, as CLIP's authors did.
void keep_below(Tensor parameter, double greatest) {
  const headway::NoGradGuard guard;
  if (parameter.item() > greatest) parameter.fill(greatest);
}

int train(example::Arguments& arguments) {
  example::TrainingRun run = {.output = "emoji-clip", .steps = 2400, .learning_rate = 1e-3, .weight_decay = 0.05};
  run.read(arguments);
  const std::int64_t asked_batch = arguments.integer("batch", 128);
  const auto limit = static_cast<std::size_t>(arguments.integer("limit", 0));  // pictures to read, for a quick try
  arguments.check_all_used();
  if (arguments.files().size() != 1) throw headway::Error("train: expected the folder of captions.tsv");
  const std::vector<Emoji> all = emoji::read(arguments.files()[0], limit);
  const emoji::Split parts = emoji::split(all);
  const headway::TextTokenizer tokenizer = emoji::tokenizer_of(captions_of(all, parts.training));
  headway::set_random_seed(run.seed);
  const headway::ClipModel clip = headway::ClipModel::from_config(config(tokenizer.size()));
  std::printf("%zu pictures, %lld parameters\n", parts.training.size(), static_cast<long long>(clip.parameter_count()));

  emoji::Batches batches(all, parts.training, asked_batch, run.seed);
  const Tensor scale = clip.state_dict().at("logit_scale");
  example::train(clip, run, [&](const headway::BatchPosition& position) -> headway::BatchLoss {
    keep_below(scale, std::log(100.0));
    const Numbers batch = batches.batch(position.index);
    const emoji::TokenBatch texts = emoji::token_batch(tokenizer, captions_of(all, batch), kLongestText);
    const headway::ClipResult result =
        clip.forward({.tokens = texts.tokens,
                      .lengths = texts.lengths,
                      .pictures = emoji::pictures(all, batch, run.seed, position.index)});
    return {.loss = headway::ClipModel::contrastive_loss(result.logits_per_text), .tokens = batches.size()};
  });
  clip.eval();
  clip.save(run.output, headway::DType::float16);
  tokenizer.save(run.output);
  headway::PictureInput{.height = emoji::kSide, .width = emoji::kSide}.save(run.output);
  print_recall(clip, tokenizer, all, parts.validation);
  return 0;
}

// ---- questions ----

// Questions on pictures: words [questions, 4] "is there a THING", answers [questions] 0 or 1.
struct QuestionBatch {
  Numbers pictures;  // places in the part
  std::vector<std::int64_t> words, answers;
};

void add_question(const emoji::QuestionModel& model, std::size_t thing, std::size_t picture, bool yes,
                  QuestionBatch& batch) {
  for (const std::int64_t id : model.encode("is there a " + emoji::things()[thing].name)) batch.words.push_back(id);
  batch.pictures.push_back(picture);
  batch.answers.push_back(yes ? 1 : 0);
}

Tensor question_logits(const emoji::QuestionModel& model, const QuestionBatch& batch, const Tensor& states) {
  return model.forward(Tensor::from(batch.words, {static_cast<std::int64_t>(batch.pictures.size()), 4}), states).logits;
}

// Every thing that one of the part's pictures shows: all of those, and as many that do not show it, taken evenly.
QuestionBatch test_questions(const emoji::QuestionModel& model, const std::vector<Emoji>& all, const Numbers& part) {
  QuestionBatch batch;
  const std::vector<emoji::Answers> answers = emoji::answers_of(all, part);
  for (std::size_t thing = 0; thing < answers.size(); ++thing) {
    const auto& [yes, no] = answers[thing];
    const std::size_t count = std::min(yes.size(), no.size());
    for (std::size_t i = 0; i < count; ++i) {
      add_question(model, thing, yes[i], true, batch);
      add_question(model, thing, no[i * no.size() / count], false, batch);
    }
  }
  return batch;
}

// Hidden states of the picture tower: [pictures, 1 + patches, width].
Tensor states_of(const headway::ClipModel& clip, const std::vector<Emoji>& all, const Numbers& part,
                 std::optional<std::uint64_t> seed = {}, std::int64_t number = 0) {
  const headway::NoGradGuard guard;
  std::vector<Tensor> states;
  for (std::size_t first = 0; first < part.size(); first += 100) {
    const Numbers some(part.begin() + static_cast<std::ptrdiff_t>(first),
                       part.begin() + static_cast<std::ptrdiff_t>(std::min(first + 100, part.size())));
    const std::int64_t batch = number * 1000 + static_cast<std::int64_t>(first / 100);
    states.push_back(clip.embed_pictures(emoji::pictures(all, some, seed, batch)).hidden);
  }
  return headway::concat(states);
}

void print_answers(const headway::ClipModel& clip, const emoji::QuestionModel& model, const std::vector<Emoji>& all,
                   const Numbers& part) {
  const headway::NoGradGuard guard;
  const QuestionBatch batch = test_questions(model, all, part);
  const Tensor best = argmax(question_logits(model, batch, states_of(clip, all, batch.pictures)), 1);
  std::map<std::string, std::pair<std::size_t, std::size_t>> by_thing;  // right, asked
  std::size_t right = 0;
  for (std::size_t i = 0; i < batch.answers.size(); ++i) {
    const bool is_right = static_cast<std::int64_t>(best.at({static_cast<std::int64_t>(i)})) == batch.answers[i];
    auto& [thing_right, asked] =
        by_thing[emoji::QuestionModel::all_words()[static_cast<std::size_t>(batch.words[4 * i + 3])]];
    right += is_right;
    thing_right += is_right;
    ++asked;
  }
  for (const auto& [thing, counts] : by_thing) {
    std::printf("  %-12s %3zu of %3zu right\n", thing.c_str(), counts.first, counts.second);
  }
  std::printf("questions: %zu of %zu right, %.1f%% (half of them are yes)\n", right, batch.answers.size(),
              100.0 * static_cast<double>(right) / static_cast<double>(std::max<std::size_t>(batch.answers.size(), 1)));
}

// A batch of questions: any thing, yes or no by a coin; half of the pictures without it have a skin tone, since those
// with people are harder.
QuestionBatch random_questions(const emoji::QuestionModel& model, const std::vector<emoji::Answers>& every,
                               const std::vector<emoji::Answers>& toned, std::int64_t size, example::Draws draws) {
  QuestionBatch batch;
  while (static_cast<std::int64_t>(batch.pictures.size()) < size) {
    const auto thing = static_cast<std::size_t>(draws.next() % every.size());
    const bool yes = draws.next() % 2 == 0, hard = draws.next() % 2 == 0;
    const Numbers& candidates = yes ? every[thing].yes : hard ? toned[thing].no : every[thing].no;
    const std::uint64_t draw = draws.next();
    if (!candidates.empty()) add_question(model, thing, candidates[draw % candidates.size()], yes, batch);
  }
  return batch;
}

int train_questions(example::Arguments& arguments) {
  example::TrainingRun run = {.output = "", .steps = 2500, .learning_rate = 1e-3, .weight_decay = 0.05};
  run.read(arguments);
  const std::int64_t size = arguments.integer("batch", 256), views = arguments.integer("views", 4);
  const auto limit = static_cast<std::size_t>(arguments.integer("limit", 0));
  arguments.check_all_used();
  if (arguments.files().size() != 2)
    throw headway::Error("train-questions: expected the folder of captions.tsv and a model");
  const std::filesystem::path directory = arguments.files()[1];
  if (run.output.empty()) run.output = directory / "questions";
  const std::vector<Emoji> all = emoji::read(arguments.files()[0], limit);
  const emoji::Split parts = emoji::split(all);
  const headway::ClipModel clip = load_clip(directory);
  // The picture tower stays as it is, so its hidden states are computed once, of each picture in a few forms.
  std::vector<Tensor> states;  // of each view [pictures, 1 + patches, width]
  for (std::int64_t view = 0; view < views; ++view) {
    states.push_back(states_of(clip, all, parts.training, run.seed + 7, view));
  }
  const Tensor every_state = headway::concat(states);
  const std::int64_t tokens = every_state.size(1), width = every_state.size(2);
  const Tensor table = every_state.reshape({every_state.size(0), tokens * width});
  std::vector<std::size_t> place(all.size());  // of a picture in its part
  Numbers toned_pictures;
  for (std::size_t i = 0; i < parts.training.size(); ++i) {
    place[parts.training[i]] = i;
    if (emoji::has_skin_tone(all[parts.training[i]])) toned_pictures.push_back(parts.training[i]);
  }
  const auto every = emoji::answers_of(all, parts.training), toned = emoji::answers_of(all, toned_pictures);

  headway::set_random_seed(run.seed);
  const emoji::QuestionModel model(emoji::QuestionModel::all_words(), width);
  std::printf("%lld parameters\n", static_cast<long long>(model.parameter_count()));
  const auto count = static_cast<std::int64_t>(parts.training.size());
  example::train(model, run, [&](const headway::BatchPosition& position) -> headway::BatchLoss {
    const auto index = static_cast<std::uint64_t>(position.index);
    const QuestionBatch batch = random_questions(model, every, toned, size, {run.seed, index, 0});
    example::Draws draws(run.seed, index, 1);
    std::vector<std::int64_t> rows;
    for (const std::size_t picture : batch.pictures) {
      rows.push_back(static_cast<std::int64_t>(draws.next() % static_cast<std::uint64_t>(views)) * count +
                     static_cast<std::int64_t>(place[picture]));
    }
    const Tensor seen = embedding(table, Tensor::from(rows, {size})).reshape({size, tokens, width});
    return {.loss = cross_entropy(question_logits(model, batch, seen), Tensor::from(batch.answers, {size})),
            .tokens = size};
  });
  model.eval();
  model.save(directory / "ask.safetensors");
  print_answers(clip, model, all, parts.validation);
  return 0;
}

int evaluate(example::Arguments& arguments) {
  const auto limit = static_cast<std::size_t>(arguments.integer("limit", 0));
  arguments.check_all_used();
  if (arguments.files().size() != 2) throw headway::Error("evaluate: expected the folder of captions.tsv and a model");
  const std::filesystem::path directory = arguments.files()[1];
  const std::vector<Emoji> all = emoji::read(arguments.files()[0], limit);
  const emoji::Split parts = emoji::split(all);
  const headway::ClipModel clip = load_clip(directory);
  print_recall(clip, headway::TextTokenizer::load(directory), all, parts.test);
  if (std::filesystem::exists(directory / "ask.safetensors")) {
    print_answers(clip, emoji::QuestionModel::load(directory / "ask.safetensors"), all, parts.test);
  }
  return 0;
}

// ---- using a model ----

// Tells what reading and resizing made of a picture.
headway::Picture read_and_tell(const std::filesystem::path& file, const headway::PictureInput& input) {
  headway::Picture picture = headway::read_picture(file);
  const std::int64_t height = picture.pixels.size(0), width = picture.pixels.size(1);
  std::string notes = picture.notes;
  if (height != input.height || width != input.width) {
    notes += (notes.empty() ? "" : "; ") + std::string("resized from ") + std::to_string(width) + " x " +
             std::to_string(height) + " to " + std::to_string(input.width) + " x " + std::to_string(input.height);
  }
  if (!notes.empty()) std::fprintf(stderr, "note: %s: %s\n", file.c_str(), notes.c_str());
  return picture;
}

// The PNG and JPEG files of the arguments, those of folders in the order of their names.
std::vector<std::filesystem::path> picture_files(const std::vector<std::string>& names, std::size_t first) {
  std::vector<std::filesystem::path> files;
  for (std::size_t i = first; i < names.size(); ++i) {
    if (!std::filesystem::is_directory(names[i])) {
      files.emplace_back(names[i]);
      continue;
    }
    const auto begin = static_cast<std::ptrdiff_t>(files.size());
    for (const auto& entry : std::filesystem::directory_iterator(names[i])) {
      const std::string ending = entry.path().extension().string();
      if (ending == ".png" || ending == ".jpg" || ending == ".jpeg") files.push_back(entry.path());
    }
    std::sort(files.begin() + begin, files.end());
  }
  if (files.empty()) throw headway::Error("there is no picture, expected PNG or JPEG files or folders of them");
  return files;
}

int search(example::Arguments& arguments) {
  const std::filesystem::path directory = arguments.text("model", "models/emoji-clip");
  const std::int64_t top = arguments.integer("top", 3);
  arguments.check_all_used();
  if (arguments.files().size() < 2) throw headway::Error("search: expected a text and pictures");
  const std::string& text = arguments.files()[0];
  if (text.find_first_not_of(" \t\n") == std::string::npos) throw headway::Error("search: the text is empty");
  const std::vector<std::filesystem::path> files = picture_files(arguments.files(), 1);
  const headway::ClipModel clip = load_clip(directory);
  const headway::TextTokenizer tokenizer = headway::TextTokenizer::load(directory);
  const headway::PictureInput input = headway::PictureInput::load(directory);
  const emoji::TokenBatch tokens = emoji::token_batch(tokenizer, {text}, kLongestText);
  if (tokenizer.tokenize(text).ids.size() > static_cast<std::size_t>(kLongestText)) {
    std::fprintf(stderr, "note: of the text the first %lld words alone are read\n",
                 static_cast<long long>(kLongestText - 2));
  }
  for (std::int64_t i = 0; i < tokens.lengths[0]; ++i) {
    if (tokens.tokens.at({0, i}) == emoji::kUnknown) {
      std::fprintf(stderr, "note: \"%s\" has words that the model has never seen\n", text.c_str());
      break;
    }
  }
  const headway::NoGradGuard guard;
  const Tensor wanted = embed(clip, tokens).transpose(0, 1);  // [shared, 1]
  std::vector<std::pair<double, std::size_t>> found;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const Tensor pixels = headway::picture_tensor(read_and_tell(files[i], input), input).unsqueeze(0);
    found.emplace_back(-matmul(clip.embed_pictures(pixels).embeddings, wanted).item(), i);
  }
  std::sort(found.begin(), found.end());
  for (std::size_t i = 0; i < std::min(found.size(), static_cast<std::size_t>(std::max<std::int64_t>(top, 1))); ++i) {
    std::printf("%.3f  %s\n", -found[i].first, files[found[i].second].c_str());
  }
  return 0;
}

// Patches in a row of the picture.
std::int64_t grid_of(const headway::ClipModel& clip) {
  const headway::FrontOptions& front = clip.options().picture.encoder.front;
  return front.image_width / front.patch_width;
}

// The question's words over the picture's patches.
headway::AttentionRecord question_record(const std::string& question, const Tensor& weights,
                                         const headway::Picture& picture, std::int64_t grid) {
  headway::AttentionPart part;
  part.name = "cross";
  part.queries = emoji::plain_words(question);
  part.layers = {weights.select(0, 0).contiguous()};  // [heads, words, 1 + patches]
  part.key_medium = {.kind = headway::MediumKind::picture,
                     .png = headway::encode_png(picture.pixels),
                     .first = 1,
                     .rows = grid,
                     .columns = grid};
  part.keys = headway::medium_labels(part.key_medium);
  return {.source = "a picture", .target = question, .language = "", .parts = {part}};
}

int ask(example::Arguments& arguments) {
  const std::filesystem::path directory = arguments.text("model", "models/emoji-clip");
  const std::string html = arguments.text("html", ""), svg = arguments.text("svg", "");
  arguments.check_all_used();
  if (arguments.files().size() != 2)
    throw headway::Error("ask: expected a picture and a question, as \"is there a hat?\"");
  const std::string& question = arguments.files()[1];
  const emoji::QuestionModel model = emoji::QuestionModel::load(directory / "ask.safetensors");
  const std::vector<std::int64_t> words = model.encode(question);
  const headway::ClipModel clip = load_clip(directory);
  const headway::PictureInput input = headway::PictureInput::load(directory);
  const headway::Picture picture = read_and_tell(arguments.files()[0], input);
  const headway::NoGradGuard guard;
  const Tensor pixels = headway::picture_tensor(picture, input).unsqueeze(0);
  const auto result = model.forward(Tensor::from(words, {1, static_cast<std::int64_t>(words.size())}),
                                    clip.embed_pictures(pixels).hidden, headway::Weights::per_head);
  const double yes = softmax(result.logits).at({0, 1});
  std::printf("%s %s (%.1f%%)\n", question.c_str(), yes >= 0.5 ? "yes" : "no", 100.0 * std::max(yes, 1.0 - yes));
  const headway::AttentionRecord record = question_record(question, result.weights, picture, grid_of(clip));
  if (!html.empty()) example::write_text(html, headway::attention_html(record));
  if (!svg.empty()) example::write_text(svg, headway::attention_svg(record));
  return 0;
}

}  // namespace

int main(int count, char** words) {
  return example::run([&] {
    example::Arguments arguments(count, words);
    if (arguments.command() == "train") return train(arguments);
    if (arguments.command() == "train-questions") return train_questions(arguments);
    if (arguments.command() == "evaluate") return evaluate(arguments);
    if (arguments.command() == "search") return search(arguments);
    if (arguments.command() == "ask") return ask(arguments);
    throw headway::Error("expected train, train-questions, evaluate, search or ask");
  });
}
