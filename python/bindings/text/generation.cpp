// TextGenerator and TextToText: texts and token ids in, texts out, with callbacks while they are written.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "bindings/text/text_bindings.h"
#include "headway/text_generator.h"
#include "headway/text_to_text.h"

namespace headway::python {
namespace {

using namespace nb::literals;
using Array = nb::handle;
using Ids = std::vector<std::int64_t>;

// Prompts of one call: texts, or token ids.
struct Prompts {
  std::vector<std::string> texts;
  std::vector<Ids> ids;
  bool has_ids = false;
  bool is_one = false;
};

bool is_sequence(nb::handle value) { return nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value); }

// Lists for arrays, everything else as it is.
nb::object without_array(nb::handle value) {
  return nb::hasattr(value, "tolist") ? value.attr("tolist")() : nb::borrow(value);
}

// A str, a list of them, token ids, or a list of such.
Prompts read_prompts(const std::string& argument, nb::handle given) {
  const nb::object value = without_array(given);
  Prompts prompts;
  if (nb::isinstance<nb::str>(value)) {
    prompts.texts = {read_string(argument, value)};
    prompts.is_one = true;
    return prompts;
  }
  constexpr const char* kExpected = "a str, a list of them, token ids or a list of such";
  if (!is_sequence(value)) refuse(argument, value, kExpected);
  if (nb::len(value) > 0 && nb::isinstance<nb::str>(nb::object(value[0]))) {
    prompts.texts = read_texts(argument, value).texts;
    return prompts;
  }
  prompts.has_ids = true;
  const bool is_nested = nb::len(value) > 0 && (is_sequence(nb::object(value[0])) || nb::hasattr(value[0], "tolist"));
  if (!is_nested) {
    prompts.ids = {read_integers(argument, value, kExpected)};
    prompts.is_one = true;
    return prompts;
  }
  for (const nb::handle row : value) {
    const std::string place = argument + "[" + std::to_string(prompts.ids.size()) + "]";
    prompts.ids.push_back(read_integers(place, without_array(row), "token ids"));
  }
  return prompts;
}

// Takes the interpreter's lock, lets Ctrl-C end the call, then calls.
template <typename Call>
auto with_lock(const Call& call) {
  const LockHeld held;
  raise_signals();
  return call();
}

nb::object give_attention(const GeneratedAttention& attention) {
  const auto all = [](const std::vector<Tensor>& layers) {
    nb::list list;
    for (const Tensor& layer : layers) list.append(nb::cast(layer).attr("numpy")());
    return list;
  };
  return call_python(result_type("GeneratedAttention"), attention.position, all(attention.self), all(attention.cross));
}

nb::object give_text(const GeneratedText& text) {
  constexpr std::array kReasons = {"length", "end_token", "stop_text"};
  nb::list attention;
  for (const GeneratedAttention& step : text.attention) attention.append(give_attention(step));
  return call_python(result_type("GeneratedText"), text.text, text.tokens, text.log_probabilities, text.score,
                     kReasons[static_cast<std::size_t>(text.reason)], text.prompt_tokens, attention);
}

nb::list give_texts(const std::vector<GeneratedText>& texts) {
  nb::list list;
  for (const GeneratedText& text : texts) list.append(give_text(text));
  return list;
}

// Reads options by name out of Python's keyword arguments.
class GenerateArguments {
 public:
  GenerateArguments(std::string function, const nb::kwargs& given) : function_(std::move(function)), given_(given) {}

  GenerateOptions read() {
    GenerateOptions options;
    read_sampling(options);
    read_ends(options);
    read_beams(options);
    read_callbacks(options);
    for (const auto& [key, value] : given_) {
      throw nb::type_error((function_ + ": there is no option " + nb::cast<std::string>(key)).c_str());
    }
    return options;
  }

  // The value of an option, which is taken out; invalid where it is missing or None.
  nb::object take(const char* name) {
    if (!given_.contains(name)) return {};
    nb::object value = given_.attr("pop")(name);
    return value.is_none() ? nb::object() : value;
  }
  std::string argument(const char* name) const { return function_ + ": " + name; }

 private:
  void number(const char* name, std::optional<double>& to) {
    if (const nb::object value = take(name); value.is_valid()) to = read_number(argument(name), value);
  }
  void integer(const char* name, std::optional<std::int64_t>& to) {
    if (const nb::object value = take(name); value.is_valid()) to = read_integer(argument(name), value);
  }
  void integer(const char* name, std::int64_t& to) {
    if (const nb::object value = take(name); value.is_valid()) to = read_integer(argument(name), value);
  }

  void read_sampling(GenerateOptions& options) {
    number("temperature", options.temperature);
    integer("top_k", options.top_k);
    number("top_p", options.top_p);
    number("min_p", options.min_p);
    number("repetition_penalty", options.repetition_penalty);
    integer("no_repeat_ngram", options.no_repeat_ngram);
    if (const nb::object value = take("logit_bias"); value.is_valid()) {
      if (!nb::isinstance<nb::dict>(value)) refuse(argument("logit_bias"), value, "a dict of tokens and numbers");
      for (const auto& [token, bias] : nb::cast<nb::dict>(value)) {
        options.logit_bias.emplace_back(read_integer(argument("logit_bias"), token),
                                        read_number(argument("logit_bias"), bias));
      }
    }
    if (const nb::object value = take("suppressed"); value.is_valid()) {
      options.suppressed = read_integers(argument("suppressed"), value, "token ids");
    }
    if (const nb::object value = take("seed"); value.is_valid()) options.seed = read_seed(argument("seed"), value);
  }

  void read_ends(GenerateOptions& options) {
    integer("max_new_tokens", options.max_new_tokens);
    integer("min_new_tokens", options.min_new_tokens);
    if (const nb::object value = take("stop"); value.is_valid()) {
      options.stop = read_texts(argument("stop"), value).texts;
    }
    if (const nb::object value = take("stop_ids"); value.is_valid()) {
      options.stop_ids = read_integers(argument("stop_ids"), value, "token ids");
    }
    if (const nb::object value = take("ignore_end"); value.is_valid()) {
      options.ignore_end = read_flag(argument("ignore_end"), value);
    }
  }

  void read_beams(GenerateOptions& options) {
    integer("beams", options.beams);
    integer("num_return", options.num_return);
    number("length_penalty", options.length_penalty);
    if (const nb::object value = take("early_stopping"); value.is_valid()) {
      options.early_stopping =
          static_cast<EarlyStopping>(read_choice(argument("early_stopping"), value, {"heuristic", "first", "never"}));
    }
    integer("batch_size", options.batch_size);
  }

  void read_callbacks(GenerateOptions& options) {
    if (const nb::object call = take("on_text"); call.is_valid()) {
      options.on_text = [call = keep("on_text", call)](std::string_view piece) {
        with_lock([&] { call_python(*call, nb::str(piece.data(), piece.size())); });
      };
    }
    if (const nb::object call = take("on_token"); call.is_valid()) {
      const std::string result = argument("what on_token returned");
      options.on_token = [call = keep("on_token", call), result](std::int64_t token, double log_probability) {
        return with_lock([&] {
          const nb::object goes_on = call_python(*call, token, log_probability);
          return goes_on.is_none() || read_flag(result, goes_on);
        });
      };
    }
    if (const nb::object value = take("return_weights"); value.is_valid()) {
      options.weights = read_weights(argument("return_weights"), value);
    }
    if (const nb::object call = take("on_attention"); call.is_valid()) {
      options.on_attention = [call = keep("on_attention", call)](const GeneratedAttention& attention) {
        with_lock([&] { call_python(*call, give_attention(attention)); });
      };
    }
  }

  std::shared_ptr<nb::object> keep(const char* name, const nb::object& call) const {
    return released_with_lock(read_function(argument(name), call));
  }

  std::string function_;
  nb::kwargs given_;
};

nb::object generate(const TextGenerator& self, Array prompt, const PromptCache* prefix, const nb::kwargs& given) {
  const Prompts prompts = read_prompts("generate: prompt", prompt);
  GenerateOptions options = GenerateArguments("generate", given).read();
  options.prefix = prefix;
  options.on_step = SignalWatch();  // Ctrl-C ends the call
  const std::vector<std::vector<GeneratedText>> found = without_lock(
      [&] { return prompts.has_ids ? self.generate(prompts.ids, options) : self.generate(prompts.texts, options); });
  nb::list results;
  for (const std::vector<GeneratedText>& texts : found) {
    results.append(options.num_return == 1 ? give_text(texts.front()) : nb::object(give_texts(texts)));
  }
  return prompts.is_one ? nb::object(results[0]) : nb::object(results);
}

PromptCache read_prompt(const TextGenerator& self, Array prompt) {
  const Prompts prompts = read_prompts("read_prompt: prompt", prompt);
  if (!prompts.is_one) refuse("read_prompt: prompt", prompt, "one text or the token ids of one");
  return without_lock(
      [&] { return prompts.has_ids ? self.read_prompt(prompts.ids[0]) : self.read_prompt(prompts.texts[0]); });
}

nb::object score(const TextGenerator& self, Array text, std::int64_t window, std::int64_t stride) {
  const Prompts texts = read_prompts("score: text", text);
  if (!texts.is_one) refuse("score: text", text, "one text or the token ids of one");
  const ScoreOptions options = {.window = window, .stride = stride};
  const TextScore found = without_lock(
      [&] { return texts.has_ids ? self.score(texts.ids[0], options) : self.score(texts.texts[0], options); });
  return call_python(result_type("TextScore"), found.tokens, found.log_probabilities, found.log_probability,
                     found.perplexity);
}

nb::object attention(const TextGenerator& self, Array tokens, std::int64_t position, Array return_weights) {
  const Ids ids = read_integers("attention: tokens", without_array(tokens), "token ids");
  const Weights weights = read_weights("attention: return_weights", return_weights);
  return give_attention(without_lock([&] { return self.attention(ids, position, weights); }));
}

nb::object run(const TextToText& self, Array text, const std::string& prefix, bool truncate,
               std::optional<std::int64_t> first_token, const nb::kwargs& given) {
  const Prompts prompts = read_prompts("run: text", text);
  TextToTextOptions options;
  options.prefix = prefix;
  options.truncate = truncate;
  options.first_token = first_token;
  options.generate = GenerateArguments("run", given).read();
  options.generate.on_step = SignalWatch();
  const std::vector<TextToTextResult> found =
      without_lock([&] { return prompts.has_ids ? self.run(prompts.ids, options) : self.run(prompts.texts, options); });
  nb::list results;
  for (const TextToTextResult& result : found) {
    results.append(options.generate.num_return == 1 ? give_text(result.best.front())
                                                    : nb::object(give_texts(result.best)));
  }
  return prompts.is_one ? nb::object(results[0]) : nb::object(results);
}

// What both have: constructors, the model, the tokenizer.
template <typename Task>
nb::class_<Task> bind_writer(nb::module_& module, const char* name, const char* text) {
  nb::class_<Task> task(module, name, text);
  const std::string about(name);
  // Before the other one, which takes anything and then refuses it in words.
  task.def(
      "__init__",
      [](Task* self, const TransformerModel& model, const TextTokenizer* tokenizer) {
        new (self) Task(model, tokenizer ? std::optional<TextTokenizer>(*tokenizer) : std::nullopt);
      },
      "model"_a, "tokenizer"_a.none() = nb::none(), "A model in evaluation mode and, for texts, its tokenizer.");
  task.def(
      "__init__",
      [about](Task* self, Array directory, Array device, Array dtype) {
        const std::filesystem::path path = read_path(about + ": directory", directory);
        TaskOptions options;
        options.device = read_device(about + ": device", device);
        options.dtype = read_optional_dtype(about + ": dtype", dtype);
        without_lock([&] { new (self) Task(path, options); });
      },
      "directory"_a, "device"_a = "cpu", "dtype"_a.none() = nb::none(),
      "A model directory; without a tokenizer in it, texts are token ids.");
  task.def_prop_ro(
      "model", [](const Task& self) { return self.model(); }, "The model, shared.");
  task.def_prop_ro(
      "tokenizer", [](const Task& self) { return self.tokenizer(); }, "The tokenizer, or None.");
  return task;
}

constexpr const char* kOptionsText =
    "Options: max_new_tokens, min_new_tokens; temperature, top_k, top_p, min_p, seed to draw tokens; "
    "repetition_penalty, no_repeat_ngram, logit_bias (a dict), suppressed; stop (texts), stop_ids, ignore_end; beams, "
    "num_return, length_penalty, early_stopping (\"heuristic\", \"first\" or \"never\"); batch_size; on_text(piece), "
    "on_token(token, log_probability), which ends the text by returning False; return_weights, "
    "on_attention(attention). "
    "What is not given is taken from the model's generation_config.json.";

}  // namespace

void bind_generation(nb::module_& module) {
  nb::class_<PromptCache>(module, "PromptCache", "A prompt that was read once, which several texts begin with.")
      .def_prop_ro(
          "tokens", [](const PromptCache& self) { return self.tokens(); }, "Its ids.");
  bind_writer<TextGenerator>(module, "TextGenerator", "Generates text with a decoder: GPT-2, Llama and others.")
      .def("generate", &generate, "prompt"_a, nb::kw_only(), "prefix"_a.none() = nb::none(), "options"_a,
           ("Continues a prompt: a headway.GeneratedText, or a list of them for a list of prompts; with num_return "
            "above 1 a list for each prompt. A prompt is a text or token ids, which are taken as they are. prefix: "
            "what read_prompt() gave. " +
            std::string(kOptionsText))
               .c_str())
      .def("read_prompt", &read_prompt, "prompt"_a, "Reads a prompt once, for generate(prefix=...).")
      .def("score", &score, "text"_a, nb::kw_only(), "window"_a = 0, "stride"_a = 0,
           "The log-probabilities of a text or of token ids, of any length, a headway.TextScore.")
      .def("attention", &attention, "tokens"_a, "position"_a, "return_weights"_a = true,
           "The attention of one token of a text alone, a headway.GeneratedAttention.")
      .def(
          "encode", [](const TextGenerator& self, const std::string& prompt) { return self.encode(prompt); },
          "prompt"_a, "The ids that generate() makes of a prompt.");
  bind_writer<TextToText>(module, "TextToText", "Text to text by an encoder-decoder: summaries, T5's tasks.")
      .def(
          "run", &run, "text"_a, nb::kw_only(), "prefix"_a = "", "truncate"_a = true,
          "first_token"_a.none() = nb::none(), "options"_a,
          ("What the model writes for a text: a headway.GeneratedText, or a list of them for a list of texts; with "
           "num_return above 1 a list for each. Texts may be given as token ids with their end token. prefix comes "
           "before every text, as T5's \"summarize: \"; first_token is written first, as mBART's code of a language. " +
           std::string(kOptionsText))
              .c_str());
}

}  // namespace headway::python
