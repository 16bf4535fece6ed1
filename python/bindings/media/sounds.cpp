// Sounds: files, sampling rates, spectrograms.
#include <nanobind/stl/string.h>

#include <new>

#include "bindings/media/media_bindings.h"
#include "headway/audio.h"

namespace headway::python {
namespace {

using namespace nb::literals;

nb::object give_sound(const Sound& sound) {
  return call_python(perception_type("Sound"), to_numpy(sound.samples), sound.rate, sound.notes);
}

nb::object read(nb::handle file, nb::handle rate) {
  const std::filesystem::path path = read_path("read_sound: file", file);
  const std::int64_t wanted = read_integer("read_sound: rate", rate);
  return give_sound(without_lock([&] { return read_sound(path, wanted); }));
}

nb::object parse(const nb::bytes& data, nb::handle rate) {
  const std::int64_t wanted = read_integer("parse_sound: rate", rate);
  const std::string_view bytes(data.c_str(), data.size());
  return give_sound(without_lock([&] { return parse_sound(bytes, "parse_sound: data", wanted); }));
}

void write(nb::handle file, nb::handle samples, nb::handle rate) {
  Arrays arrays("write_wav");
  const std::filesystem::path path = read_path("write_wav: file", file);
  const Sound sound = {.samples = arrays.read("samples", samples), .rate = read_integer("write_wav: rate", rate)};
  arrays.run([&] { write_wav(path, sound); });
}

nb::object resample_array(nb::handle samples, nb::handle from, nb::handle to) {
  Arrays arrays("resample");
  const Tensor input = arrays.read("samples", samples);
  const std::int64_t old_rate = read_integer("resample: from_rate", from);
  const std::int64_t new_rate = read_integer("resample: to_rate", to);
  return arrays.map([&] { return resample(input, old_rate, new_rate); });
}

nb::object log_mel_array(nb::handle samples, const LogMelOptions& options) {
  Arrays arrays("log_mel");
  const Tensor input = arrays.read("samples", samples);
  return arrays.map([&] { return log_mel(input, options); });
}

void bind_options(nb::module_& module) {
  nb::class_<LogMelOptions>(module, "LogMelOptions",
                            "The spectrogram of Whisper's models; the defaults are those of its published ones.")
      .def(
          "__init__",
          [](LogMelOptions* self, nb::handle rate, nb::handle window, nb::handle hop, nb::handle bins,
             nb::handle length, nb::handle max_frequency, bool normalize) {
            const auto integer = [](const char* name, nb::handle value) {
              return read_integer(std::string("LogMelOptions: ") + name, value);
            };
            new (self) LogMelOptions{.rate = integer("rate", rate),
                                     .window = integer("window", window),
                                     .hop = integer("hop", hop),
                                     .bins = integer("bins", bins),
                                     .length = integer("length", length),
                                     .max_frequency = read_number("LogMelOptions: max_frequency", max_frequency),
                                     .normalize = normalize};
          },
          nb::kw_only(), "rate"_a = 16000, "window"_a = 400, "hop"_a = 160, "bins"_a = 80, "length"_a = 0,
          "max_frequency"_a = 0.0, "normalize"_a = false,
          "length: samples, padded with zeros or cut; 0: as they are. max_frequency in Hz; 0: rate / 2, at most 8000. "
          "normalize: first to a mean of 0 and a variance of 1.")
      .def_static(
          "load",
          [](nb::handle directory) {
            return LogMelOptions::load(read_path("LogMelOptions.load: directory", directory));
          },
          "directory"_a, "What preprocessor_config.json of a directory says.")
      .def(
          "save",
          [](const LogMelOptions& self, nb::handle directory) {
            self.save(read_path("LogMelOptions.save: directory", directory));
          },
          "directory"_a, "Writes preprocessor_config.json into a directory that exists.")
      .def_rw("rate", &LogMelOptions::rate)
      .def_rw("window", &LogMelOptions::window)
      .def_rw("hop", &LogMelOptions::hop)
      .def_rw("bins", &LogMelOptions::bins)
      .def_rw("length", &LogMelOptions::length)
      .def_rw("max_frequency", &LogMelOptions::max_frequency)
      .def_rw("normalize", &LogMelOptions::normalize);
}

}  // namespace

void bind_sounds(nb::module_& module) {
  bind_options(module);
  module.def("read_sound", &read, "file"_a, "rate"_a = 0,
             "A WAV, FLAC, Ogg, AIFF, AU or CAF file as a headway.Sound: its channels mixed to one, resampled to "
             "`rate` unless that is 0.");
  module.def("parse_sound", &parse, "data"_a, "rate"_a = 0, "The same of a file's bytes.");
  module.def("write_wav", &write, "file"_a, "samples"_a, "rate"_a,
             "Writes samples [length] to a WAV file of 16 bits; those outside of -1 to 1 are clipped.");
  module.def("resample", &resample_array, "samples"_a, "from_rate"_a, "to_rate"_a,
             "samples [length] at another rate: [ceil(length * to_rate / from_rate)].");
  module.def("log_mel", &log_mel_array, "samples"_a, "options"_a = LogMelOptions(),
             "samples [length] -> the features [bins, frames] that Whisper's models read.");
}

}  // namespace headway::python
