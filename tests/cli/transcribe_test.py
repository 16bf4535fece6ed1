"""headway transcribe, on a small random model that the test writes, with sounds of every kind and what is none."""

import json
import math
import struct
import wave

from generate_test import write_model
from program_test import ProgramTest

TOKENIZER = {
    "version": "1.0", "truncation": None, "padding": None,
    "added_tokens": [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                      "normalized": False, "special": True} for i, text in ((6, "<start>"), (7, "<end>"))],
    "normalizer": None, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "unk_token": "<end>",
              "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5, "<start>": 6, "<end>": 7}},
}


def whisper(directory):
    """Sounds of 8 kHz, windows of one second, eight tokens."""
    width, hidden, bins = 8, 16, 10
    shapes = {"model.encoder.conv1.weight": [width, bins, 3], "model.encoder.conv1.bias": [width],
              "model.encoder.conv2.weight": [width, width, 3], "model.encoder.conv2.bias": [width],
              "model.encoder.embed_positions.weight": [25, width], "model.decoder.embed_tokens.weight": [8, width],
              "model.decoder.embed_positions.weight": [12, width]}
    for side in ("encoder", "decoder"):
        layer = f"model.{side}.layers.0."
        for attention in ("self_attn", "encoder_attn")[: 1 if side == "encoder" else 2]:
            for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
                shapes[f"{layer}{attention}.{name}.weight"] = [width, width]
                if name != "k_proj":
                    shapes[f"{layer}{attention}.{name}.bias"] = [width]
            shapes.update({f"{layer}{attention}_layer_norm.{what}": [width] for what in ("weight", "bias")})
        shapes.update({f"{layer}fc1.weight": [hidden, width], f"{layer}fc1.bias": [hidden],
                       f"{layer}fc2.weight": [width, hidden], f"{layer}fc2.bias": [width]})
        shapes.update({f"{layer}final_layer_norm.{what}": [width] for what in ("weight", "bias")})
        shapes.update({f"model.{side}.layer_norm.{what}": [width] for what in ("weight", "bias")})
    config = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "vocab_size": 8,
              "num_mel_bins": bins, "d_model": width, "encoder_layers": 1, "decoder_layers": 1,
              "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": hidden,
              "decoder_ffn_dim": hidden, "max_source_positions": 25, "max_target_positions": 12, "bos_token_id": 6,
              "decoder_start_token_id": 6, "eos_token_id": 7, "pad_token_id": 7}
    angles = [[t * 10000 ** (-i / (width // 2 - 1)) for i in range(width // 2)] for t in range(25)]
    sines = [value for row in angles for value in [*map(math.sin, row), *map(math.cos, row)]]
    write_model(directory, config, shapes, tokenizer=False, given={"model.encoder.embed_positions.weight": sines})
    (directory / "tokenizer.json").write_text(json.dumps(TOKENIZER))
    (directory / "generation_config.json").write_text(json.dumps(
        {"decoder_start_token_id": 6, "eos_token_id": 7, "pad_token_id": 7, "max_length": 10}))
    (directory / "preprocessor_config.json").write_text(json.dumps(
        {"feature_size": bins, "sampling_rate": 8000, "n_fft": 240, "hop_length": 160, "chunk_length": 1}))
    return directory


def tone(seconds, rate, channels=1):
    """Samples from -1 to 1, those of the channels side by side."""
    count = int(seconds * rate)
    return [0.4 * math.sin(i * (0.02 + i / count / 9) * 8000 / rate) for i in range(count) for _ in range(channels)]


def write_wav(path, samples, rate=8000, channels=1, width=2):
    """A WAV file of 8, 16 or 24 bits."""
    data = bytearray()
    for sample in samples:
        number = round(sample * (2 ** (8 * width - 1) - 1))
        data += struct.pack("<B", number + 128) if width == 1 else number.to_bytes(width, "little", signed=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(bytes(data))
    return path


class Transcribe(ProgramTest):
    """Good and bad sounds."""

    def setUp(self):
        super().setUp()
        self.model = whisper(self.work / "model")

    def hear(self, *arguments, **options):
        """A call with the small model that succeeds."""
        return self.good("transcribe", "--model", self.model, *arguments, **options)

    def test_text_words_and_json(self):
        file = write_wav(self.work / "tone.wav", tone(0.8, 8000))
        done = self.call("transcribe", "--model", self.model, file)
        self.assertEqual((done.returncode, done.stderr.count("resampled")), (0, 0))
        words = [line.split("\t") for line in self.hear("--words", file).splitlines()]
        self.assertEqual(" ".join(word for word, _, _ in words), done.stdout.strip())
        times = [float(start) for _, start, _ in words]
        self.assertEqual(times, sorted(times))
        record = json.loads(self.hear("--json", file))
        self.assertEqual((record["text"], record["seconds"]), (done.stdout.strip(), 0.8))
        self.assertEqual([word["word"] for word in record["words"]], [word for word, _, _ in words])
        self.assertEqual(self.hear("--beams", 3, "--threads", 2, file), self.hear("--beams", 3, file))
        self.assertEqual(len(self.hear(file, file).splitlines()), 2)

    def test_other_files(self):
        for name, channels, rate, width, notes in [
                ("stereo", 2, 44100, 2, ["mixed from 2 channels", "resampled from 44100 Hz"]),
                ("deep", 1, 48000, 3, ["resampled from 48000 Hz"]), ("coarse", 1, 8000, 1, [])]:
            file = write_wav(self.work / f"{name}.wav", tone(0.5, rate, channels), rate, channels, width)
            done = self.call("transcribe", "--model", self.model, file)
            self.assertEqual(done.returncode, 0, done.stderr)
            for note in notes:
                self.assertIn(note, done.stderr)
        done = self.call("transcribe", "--model", self.model, write_wav(self.work / "silence.wav", [0.0] * 8000))
        self.assertEqual((done.returncode, done.stdout), (0, "\n"))
        self.assertIn("silence", done.stderr)
        done = self.call("transcribe", "--model", self.model, write_wav(self.work / "long.wav", tone(3.2, 8000)))
        self.assertIn("windows", done.stderr)

    def test_pages(self):
        file = write_wav(self.work / "tone.wav", tone(0.8, 8000))
        self.hear("--html", self.work / "page.html", "--svg", self.work / "picture.svg", file)
        self.assertIn("<html", (self.work / "page.html").read_text())
        self.assertIn("<svg", (self.work / "picture.svg").read_text())
        self.assertGreater(len(self.hear("--attention", file).splitlines()), 3)

    def test_bad_input(self):
        text, cut, empty = (self.work / name for name in ("text.wav", "cut.wav", "empty.wav"))
        text.write_text("This is no sound at all, though it is called one.\n" * 9)
        cut.write_bytes(write_wav(self.work / "tone.wav", tone(0.5, 8000)).read_bytes()[:20])
        empty.write_bytes(b"")
        for file in (text, cut, empty, self.work / "none.wav", self.work):
            self.bad(1, str(file), "transcribe", "--model", self.model, file)
        done = self.call("transcribe", "--model", self.model, text, self.work / "tone.wav")
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (1, 1))
        self.bad(2, "FILE", "transcribe", "--model", self.model)
        self.bad(2, "--html", "transcribe", "--model", self.model, "--html", "-", text, text)
        self.bad(1, "knows one alone", "transcribe", "--model", self.model, "--language", "en", self.work / "tone.wav")
        self.bad(1, "has one alone", "transcribe", "--model", self.model, "--task", "translate", self.work / "tone.wav")
        (self.model / "preprocessor_config.json").unlink()
        self.bad(1, "preprocessor_config.json", "transcribe", "--model", self.model, self.work / "tone.wav")
