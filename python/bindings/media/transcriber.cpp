// Transcriber: sounds, their files or lists of them in, transcripts out.
#include "headway/transcriber.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

#include "bindings/media/media_bindings.h"

namespace headway::python {
namespace {

using namespace nb::literals;

// A file's name, or a headway.Sound.
Sound read_heard(Arrays& arrays, nb::handle value, std::int64_t rate) {
  if (nb::isinstance<nb::str>(value) || nb::hasattr(value, "__fspath__")) {
    const std::filesystem::path file = read_path("transcribe: sound", value);
    return without_lock([&] { return read_sound(file, rate); });
  }
  if (!nb::hasattr(value, "samples")) throw nb::type_error("transcribe: sound is no file's name and no headway.Sound");
  return {.samples = arrays.read("sound", value.attr("samples")),
          .rate = read_integer("transcribe: the sound's rate", value.attr("rate")),
          .notes = nb::cast<std::string>(value.attr("notes"))};
}

// The cross-attention of each window: for every layer a NumPy array [heads, tokens, positions].
nb::list give_attention(const Transcript& transcript) {
  nb::list windows;
  for (const AttentionRecord& record : transcript.attention) {
    nb::list layers;
    for (const Tensor& layer : record.parts.back().layers) layers.append(to_numpy(layer));
    windows.append(layers);
  }
  return windows;
}

nb::object give_transcript(const Transcript& transcript) {
  nb::list words;
  for (const TranscribedWord& word : transcript.words) {
    words.append(call_python(perception_type("TranscribedWord"), word.text, word.start, word.end));
  }
  return call_python(perception_type("Transcript"), transcript.text, words, transcript.tokens, transcript.score,
                     transcript.seconds, transcript.language, transcript.notes, give_attention(transcript));
}

nb::object transcribe(const Transcriber& self, nb::handle sound, nb::handle beams, nb::handle max_new_tokens,
                      const std::string& language, const std::string& task, bool words, bool attention) {
  TranscribeOptions options = {.language = language, .task = task, .words = words, .attention = attention};
  if (!beams.is_none()) options.beams = read_integer("transcribe: beams", beams);
  if (!max_new_tokens.is_none()) options.max_new_tokens = read_integer("transcribe: max_new_tokens", max_new_tokens);
  Arrays arrays("transcribe");
  std::vector<Sound> sounds;
  const bool is_list = nb::isinstance<nb::list>(sound);
  if (is_list) {
    for (const nb::handle one : sound) sounds.push_back(read_heard(arrays, one, self.rate()));
  } else {
    sounds.push_back(read_heard(arrays, sound, self.rate()));
  }
  const std::vector<Transcript> heard = without_lock([&] { return self.transcribe(sounds, options); });
  if (!is_list) return give_transcript(heard.front());
  nb::list transcripts;
  for (const Transcript& one : heard) transcripts.append(give_transcript(one));
  return transcripts;
}

}  // namespace

void bind_transcriber(nb::module_& module) {
  nb::class_<Transcriber>(module, "Transcriber", "Sound to text, with models of Whisper's layout.")
      .def(
          "__init__",
          [](Transcriber* self, nb::handle directory, nb::handle device, nb::handle dtype) {
            const std::filesystem::path path = read_path("Transcriber: directory", directory);
            TaskOptions options;
            options.device = read_device("Transcriber: device", device);
            options.dtype = read_optional_dtype("Transcriber: dtype", dtype);
            without_lock([&] { new (self) Transcriber(path, options); });
          },
          "directory"_a, "device"_a = "cpu", "dtype"_a.none() = nb::none(), "A directory of Whisper's layout.")
      .def("transcribe", &transcribe, "sound"_a, nb::kw_only(), "beams"_a.none() = nb::none(),
           "max_new_tokens"_a.none() = nb::none(), "language"_a = "", "task"_a = "", "words"_a = true,
           "attention"_a = false,
           "A headway.Transcript of a file or a headway.Sound; a list of them for a list. With `attention` it has what "
           "each token looked at: for each window and layer [heads, tokens, positions].")
      .def_prop_ro("languages", &Transcriber::languages, "The languages that the model knows; none of one alone.")
      .def_prop_ro("rate", &Transcriber::rate, "Samples a second that the model reads.")
      .def_prop_ro("window_seconds", &Transcriber::window_seconds, "The longest sound that is read at once.")
      .def_prop_ro("model", &Transcriber::model, nb::rv_policy::copy, "The model, shared.")
      .def_prop_ro("tokenizer", &Transcriber::tokenizer, nb::rv_policy::copy, "The tokenizer.");
}

}  // namespace headway::python
