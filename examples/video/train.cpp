// What moves, and how: a small video model with divided attention.
#include <headway/image.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "support/files.h"
#include "support/program.h"
#include "video/clips.h"
#include "video/frames.h"
#include "video/model.h"
#include "video/record.h"

namespace {

using headway::Tensor;
using video::Clip;

constexpr const char* kUsage =
    "example_video train DATA --output DIR [--steps N --batch N --learning-rate R --seed N --resume]\n"
    "example_video evaluate DATA MODEL [--clips N --seed N]\n"
    "example_video show DATA [--action N --digit N --seed N] [--output STRIP.png]\n"
    "example_video classify FRAMES... [--model DIR] [--html PAGE --svg PICTURE]\n"
    "example_video speed\n"
    "example_video clips DATA [--steps N --batch N --seed N] [--test]   clips as bytes, to the standard output\n"
    "Actions: 0 moves left, 1 right, 2 up, 3 down, 4 turns clockwise, 5 counter-clockwise, 6 grows, 7 shrinks, 8 "
    "still.\n"
    "DATA is the folder with digits.csv. FRAMES: a folder of PNG files, one file per frame, or one strip.\n";

void check_files(const example::Arguments& arguments, std::size_t count, const std::string& expected) {
  if (arguments.files().size() != count) {
    throw headway::Error(arguments.command() + ": " + std::to_string(arguments.files().size()) +
                         " files given, expected " + expected);
  }
}

struct Labels {
  Tensor actions, digits;  // [clips]
};
Labels labels_of(const std::vector<Clip>& clips) {
  std::vector<std::int64_t> actions, digits;
  for (const Clip& clip : clips) {
    actions.push_back(clip.action);
    digits.push_back(clip.digit);
  }
  const auto count = static_cast<std::int64_t>(clips.size());
  return {Tensor::from(actions, {count}), Tensor::from(digits, {count})};
}

int train(example::Arguments& arguments) {
  example::TrainingRun run = {.output = "video-digits", .steps = 5000, .learning_rate = 2e-3};
  run.read(arguments);
  const std::int64_t batch = arguments.integer("batch", 32);
  video::VideoOptions options;
  options.tubelet = arguments.integer("tubelet", options.tubelet);
  options.patch = arguments.integer("patch", options.patch);
  options.stride = arguments.integer("stride", options.stride);
  options.stem = arguments.integer("stem", options.stem);
  options.width = arguments.integer("width", options.width);
  options.heads = arguments.integer("heads", options.heads);
  options.layers = arguments.integer("layers", options.layers);
  options.hidden = arguments.integer("hidden", options.hidden);
  arguments.check_all_used();
  check_files(arguments, 1, "a folder of data");
  const video::Digits digits = video::read_digits(arguments.files()[0]);

  headway::set_random_seed(run.seed);
  const video::VideoModel model(options);
  std::cerr << model.parameter_count() << " parameters\n";
  example::train(model, run, [&](const headway::BatchPosition& position) -> headway::BatchLoss {
    const std::vector<Clip> clips = video::training_clips(digits, run.seed, position.index, batch);
    const Labels labels = labels_of(clips);
    const video::VideoResult result = model.forward(video::clip_tensor(clips));
    return {.loss = cross_entropy(result.actions, labels.actions) + cross_entropy(result.digits, labels.digits),
            .tokens = batch * options.times() * options.places()};
  });
  model.save(run.output);
  return 0;
}

int evaluate(example::Arguments& arguments) {
  const std::int64_t limit = arguments.integer("clips", 0);
  const auto seed = static_cast<std::uint64_t>(arguments.integer("seed", 1));
  arguments.check_all_used();
  check_files(arguments, 2, "a folder of data and a model");
  const video::VideoModel model = video::VideoModel::load(arguments.files()[1]);
  const std::vector<Clip> clips = video::test_clips(video::read_digits(arguments.files()[0]), seed, limit);

  const headway::NoGradGuard guard;
  std::int64_t both = 0, action_right = 0, digit_right = 0;
  std::array<std::int64_t, video::kActionCount> of_action = {}, of_action_right = {};
  for (std::size_t begin = 0; begin < clips.size(); begin += 64) {
    const std::vector<Clip> some(clips.begin() + static_cast<std::ptrdiff_t>(begin),
                                 clips.begin() + static_cast<std::ptrdiff_t>(std::min(begin + 64, clips.size())));
    const video::VideoResult result = model.forward(video::clip_tensor(some));
    const std::vector<double> actions = argmax(result.actions, 1).to_vector();
    const std::vector<double> digits = argmax(result.digits, 1).to_vector();
    for (std::size_t i = 0; i < some.size(); ++i) {
      const bool action = static_cast<std::int64_t>(actions[i]) == some[i].action;
      const bool digit = static_cast<std::int64_t>(digits[i]) == some[i].digit;
      action_right += action ? 1 : 0;
      ++of_action[static_cast<std::size_t>(some[i].action)];
      of_action_right[static_cast<std::size_t>(some[i].action)] += action ? 1 : 0;
      digit_right += digit ? 1 : 0;
      both += action && digit ? 1 : 0;
    }
  }
  const auto percent = [&](std::int64_t right) {
    return 100 * static_cast<double>(right) / static_cast<double>(clips.size());
  };
  std::printf("%zu clips of digits that training has not seen\n", clips.size());
  std::printf("action and digit right  %.2f %%\naction right            %.2f %%\ndigit right             %.2f %%\n",
              percent(both), percent(action_right), percent(digit_right));
  for (std::size_t i = 0; i < of_action.size(); ++i) {
    std::printf("  %-23s %lld of %lld actions right\n", video::kActions[i].c_str(),
                static_cast<long long>(of_action_right[i]), static_cast<long long>(of_action[i]));
  }
  return 0;
}

// A clip of a test digit.
int show(example::Arguments& arguments) {
  const std::int64_t action = arguments.integer("action", 4), wanted = arguments.integer("digit", 7);
  const auto seed = static_cast<std::uint64_t>(arguments.integer("seed", 1));
  const std::string output = arguments.text("output", "");
  arguments.check_all_used();
  check_files(arguments, 1, "a folder of data");
  if (action < 0 || action >= video::kActionCount) throw headway::Error("--action is not 0 to 8");
  std::vector<video::Digit> digits = video::read_digits(arguments.files()[0]).test;
  std::erase_if(digits, [&](const video::Digit& digit) { return digit.value != wanted; });
  if (digits.empty()) throw headway::Error("--digit: there is no test digit " + std::to_string(wanted));
  const Clip clip = video::make_clip(digits[seed % digits.size()], action, seed, false);
  const Tensor pixels = video::clip_pixels(clip);
  std::printf("digit %lld %s; frames 1, 6, 11 and 16:\n%s", static_cast<long long>(clip.digit),
              video::kActions[static_cast<std::size_t>(action)].c_str(), video::drawn(pixels).c_str());
  if (!output.empty()) headway::write_png(output, video::frame_strip(pixels));
  return 0;
}

int classify(example::Arguments& arguments) {
  const std::string directory = arguments.text("model", "models/video-digits");
  const std::string page = arguments.text("html", ""), picture = arguments.text("svg", "");
  arguments.check_all_used();
  if (arguments.files().empty()) throw headway::Error("classify takes a folder of frames, frames, or a strip");
  const video::VideoModel model = video::VideoModel::load(directory);
  const video::Video clip = video::read_video({arguments.files().begin(), arguments.files().end()});
  const video::Answer answer = video::answer(model, clip.pixels);
  if (!clip.notes.empty()) std::cerr << "note: " << clip.notes << '\n';
  std::printf("digit %lld %s (%.2f, %.2f)\n", static_cast<long long>(answer.digit),
              video::kActions[static_cast<std::size_t>(answer.action)].c_str(), answer.digit_probability,
              answer.action_probability);
  if (page.empty() && picture.empty()) return 0;
  const std::string name = std::filesystem::path(arguments.files()[0]).filename().string();
  const headway::AttentionRecord record = video::record(model, clip.pixels, answer, name);
  if (!page.empty()) example::write_text(page, headway::attention_html(record));
  if (!picture.empty()) example::write_text(picture, headway::attention_svg(record, {.part = "cross"}));
  return 0;
}

// Milliseconds of a forward and backward over x, the least of some calls.
template <typename Forward>
double milliseconds(const Tensor& x, const Forward& forward) {
  double least = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    sum(forward(x)).backward();
    least =
        std::min(least, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}

// Divided attention beside attention of all patches to all, over videos of several sizes.
int speed(example::Arguments& arguments) {
  arguments.check_all_used();
  constexpr std::int64_t kWidth = 96;
  const headway::MultiHeadAttention space({.embed_dim = kWidth, .num_heads = 4});
  const headway::MultiHeadAttention time({.embed_dim = kWidth, .num_heads = 4});
  std::printf("times x places   patches   divided ms   all to all ms\n");
  using Size = std::pair<std::int64_t, std::int64_t>;
  for (const Size& size : std::vector<Size>{{8, 9}, {16, 16}, {16, 36}, {16, 64}, {32, 64}, {32, 144}}) {
    const std::int64_t times = size.first, places = size.second;
    Tensor x = Tensor::randn({1, times, places, kWidth}, 1);
    x.set_requires_grad();
    const double divided = milliseconds(x, [&](const Tensor& clip) {
      const Tensor within = clip[0] + space.forward({.query = clip[0]}).output;  // (times, places, width)
      return within.transpose(0, 1) + time.forward({.query = within.transpose(0, 1).contiguous()}).output;
    });
    const double whole = milliseconds(x, [&](const Tensor& clip) {
      const Tensor all = clip.reshape({1, times * places, kWidth});
      return all + space.forward({.query = all}).output;
    });
    std::printf("%5lld x %-6lld %10lld %12.2f %15.2f\n", static_cast<long long>(times), static_cast<long long>(places),
                static_cast<long long>(times * places), divided, whole);
  }
  return 0;
}

// Clips as other programs read them: a byte of the action, a byte of the digit, then the pixels.
int write_clips(example::Arguments& arguments) {
  const std::int64_t steps = arguments.integer("steps", 1), batch = arguments.integer("batch", 32);
  const auto seed = static_cast<std::uint64_t>(arguments.integer("seed", 1));
  const bool test = arguments.flag("test");
  arguments.check_all_used();
  check_files(arguments, 1, "a folder of data");
  const video::Digits digits = video::read_digits(arguments.files()[0]);
  const auto write = [](const std::vector<Clip>& clips) {
    for (const Clip& clip : clips) {
      std::cout.put(static_cast<char>(clip.action)).put(static_cast<char>(clip.digit));
      std::cout.write(reinterpret_cast<const char*>(clip.pixels.data()), video::kClipPixels);
    }
  };
  if (test) write(video::test_clips(digits, seed));
  for (std::int64_t index = 0; !test && index < steps; ++index) {
    write(video::training_clips(digits, seed, index, batch));
  }
  if (!std::cout.flush()) throw headway::Error("the standard output cannot be written to");
  return 0;
}

}  // namespace

int main(int count, char** words) {
  return example::run([&] {
    example::Arguments arguments(count, words);
    if (arguments.command() == "train") return train(arguments);
    if (arguments.command() == "evaluate") return evaluate(arguments);
    if (arguments.command() == "show") return show(arguments);
    if (arguments.command() == "classify") return classify(arguments);
    if (arguments.command() == "speed") return speed(arguments);
    if (arguments.command() == "clips") return write_clips(arguments);
    std::cerr << kUsage;
    return arguments.command() == "--help" ? 0 : 2;
  });
}
