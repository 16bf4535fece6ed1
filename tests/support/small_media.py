"""A short sound, a small picture and what models want of them, written without any package."""

import json
import math
import struct
import wave
import zlib


def write_sound(file, rate=44100, seconds=0.5):
    """A WAV file of 16 bits: a rising tone on the left, a lower one on the right."""
    with wave.open(str(file), "wb") as out:
        out.setparams((2, 2, rate, 0, "NONE", ""))
        count = int(rate * seconds)
        left = [round(20000 * math.sin(0.02 * i + 2e-6 * i * i)) for i in range(count)]
        right = [round(9000 * math.sin(0.01 * i)) for i in range(count)]
        out.writeframes(b"".join(struct.pack("<hh", *pair) for pair in zip(left, right)))


def write_picture(file, width=72, height=72):
    """A PNG file in RGBA: a disc on a transparent ground."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = bytearray()
    for y in range(height):
        rows.append(0)
        for x in range(width):
            inside = (2 * x - width) ** 2 + (2 * y - height) ** 2 < 0.8 * width * height
            rows += bytes((255 * x // width, 255 * y // height, 90, 255 * inside))
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(rows)))
                     + chunk(b"IEND", b""))


def write_all(directory):
    """What the snippets of docs/media.md find."""
    write_sound(directory / "three-digits.wav")
    write_picture(directory / "woman-cook.png")
    configs = {"whisper": {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 80, "hop_length": 160,
                           "n_fft": 400, "sampling_rate": 16000, "chunk_length": 30},
               "vit": {"image_processor_type": "ViTImageProcessor", "size": {"height": 72, "width": 72}}}
    for name, config in configs.items():
        (directory / name).mkdir(exist_ok=True)
        (directory / name / "preprocessor_config.json").write_text(json.dumps(config))
