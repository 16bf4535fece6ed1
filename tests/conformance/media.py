#!/usr/bin/env python3
"""Sounds and pictures: features against Transformers' extractors, files against soundfile, sizes against Pillow."""

import io
import json
import pathlib
import sys
import tempfile

import numpy as np
from headway_program import Tally, parser

import headway

COUNTS = {"mel": 24, "sounds": 40, "resampling": 12, "pictures": 60, "sizes": 60, "inputs": 40}


def drawn_sound(random, length, rate):
    """Tones, a sweep and noise, with silence in between."""
    time = np.arange(length) / rate
    sound = sum(random.uniform(0, 0.3) * np.sin(2 * np.pi * random.uniform(50, rate / 2) * time) for _ in range(3))
    sound += random.uniform(0, 0.1) * random.standard_normal(length)
    sound *= np.repeat(random.integers(0, 2, length // 500 + 1), 500)[:length]
    return np.clip(sound, -1, 1).astype(np.float32)


def close(tally, ours, expected, most, *what):
    """Same shape, and nowhere further apart than `most`."""
    ours, expected = np.asarray(ours, np.float64), np.asarray(expected, np.float64)
    same = ours.shape == expected.shape
    error = np.abs(ours - expected).max() if same and ours.size else np.inf
    tally.check(error <= most, *what, f"differ by {error:.3g} of at most {most:.3g}, shapes {ours.shape}", expected.shape)


def check_mel(tally, random, work):
    """log_mel against WhisperFeatureExtractor, with its own settings and with others."""
    from transformers import WhisperFeatureExtractor

    for number in range(COUNTS["mel"]):
        rate, window, hop, bins, seconds = [(16000, 400, 160, 80, 30), (16000, 400, 160, 128, 2), (8000, 200, 80, 40, 3),
                                            (22050, 512, 256, 64, 1), (8000, 256, 64, 20, 2)][number % 5]
        extractor = WhisperFeatureExtractor(feature_size=bins, sampling_rate=rate, hop_length=hop, chunk_length=seconds,
                                            n_fft=window)
        directory = work / f"whisper{number}"
        extractor.save_pretrained(directory)
        options = headway.LogMelOptions.load(directory)
        sound = drawn_sound(random, int(random.uniform(0.1, 1.3) * seconds * rate), rate)
        if number % 6 == 5:
            sound[:] = 0
        # What is computed in float64, as in Transformers without PyTorch.
        padded = np.zeros(options.length, np.float32)
        padded[: len(sound)] = sound[: options.length]
        expected = extractor._np_extract_fbank_features(padded[None], "cpu")[0]
        ours = headway.log_mel(sound, options)
        close(tally, ours, expected, 2e-6, "log_mel", rate, window, hop, bins)
        # The call that users make, in float32.
        called = extractor(sound, sampling_rate=rate, return_tensors="np").input_features[0]
        close(tally, ours, called, 2e-2 if number % 6 != 5 else 1e-6, "log_mel and float32", rate, window, hop, bins)
        tally.check(np.mean(np.abs(ours - called)) < 1e-4, "log_mel and float32, on average", rate, window)
        again = work / f"whisper{number}_again"
        again.mkdir()
        options.save(again)
        loaded = WhisperFeatureExtractor.from_pretrained(again)
        tally.check(loaded.n_samples == options.length and loaded.feature_size == bins and loaded.n_fft == window
                    and loaded.hop_length == hop and loaded.sampling_rate == rate, "LogMelOptions.save", loaded)


def check_sounds(tally, random, work):
    """Files of many formats, depths and channels, as soundfile reads them."""
    import soundfile

    kinds = [("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "PCM_32"), ("WAV", "PCM_U8"), ("WAV", "FLOAT"),
             ("WAV", "DOUBLE"), ("WAV", "ULAW"), ("FLAC", "PCM_16"), ("FLAC", "PCM_24"), ("OGG", "VORBIS"),
             ("OGG", "OPUS"), ("AIFF", "PCM_16"), ("AU", "PCM_16"), ("CAF", "PCM_24"), ("RF64", "PCM_16"),
             ("W64", "PCM_16"), ("WAVEX", "PCM_24")]
    for number in range(COUNTS["sounds"]):
        format, subtype = kinds[number % len(kinds)]
        rate = 48000 if subtype == "OPUS" else int(random.choice([8000, 16000, 44100]))
        channels = int(random.integers(1, 6))
        samples = np.stack([0.9 * drawn_sound(random, 9000, rate) for _ in range(channels)], 1)
        file = work / f"{number}.{format.lower()}"
        soundfile.write(file, samples, rate, format=format, subtype=subtype)
        expected, expected_rate = soundfile.read(file, dtype="float32", always_2d=True)
        sound = headway.read_sound(file)
        # The two may hold different versions of the decoders.
        close(tally, sound.samples, expected.mean(1), 1e-4 if format == "OGG" else 1e-7, format, subtype, channels)
        tally.check(sound.rate == expected_rate and ("mixed from" in sound.notes) == (channels > 1), format, sound.notes)
        headway.write_wav(work / "again.wav", sound.samples, sound.rate)
        again, _ = soundfile.read(work / "again.wav", dtype="float32")
        close(tally, again, np.clip(sound.samples, -1, 1), 0.51 / 32768 + 1 / 32768 * (np.abs(sound.samples).max() > 0.9999),
              "write_wav after", format, subtype)


def check_resampling(tally, random):
    """Sines of every rate stay sines; what the new rate cannot carry goes."""
    for number in range(COUNTS["resampling"]):
        old, new = [(44100, 16000), (8000, 16000), (48000, 44100), (16000, 8000), (22050, 16000), (16001, 15999)][number % 6]
        lower = min(old, new) / 2
        low, high = random.uniform(20, 0.88 * lower), random.uniform(1.0, 1.0 + 0.9 * (old / 2 / lower - 1)) * lower
        time = np.arange(old // 2) / old
        out = np.arange(-(-len(time) * new // old)) / new
        ours = headway.resample(np.sin(2 * np.pi * low * time).astype(np.float32), old, new)
        inside = slice(len(out) // 8, -len(out) // 8)
        tally.check(ours.shape == out.shape, "resample", old, new, ours.shape, out.shape)
        close(tally, ours[inside], np.sin(2 * np.pi * low * out)[inside], 2e-4, "resample", old, new, low)
        if old > 1.05 * new and high > 1.02 * lower:
            gone = headway.resample(np.sin(2 * np.pi * high * time).astype(np.float32), old, new)
            close(tally, gone[inside], 0 * gone[inside], 1e-4, "resample away", old, new, high)


def drawn_picture(random, mode):
    """Colours that change slowly, with noise and edges, in a mode of Pillow's."""
    from PIL import Image

    width, height = (int(side) for side in random.integers(1, 90, 2))
    x, y = np.meshgrid(np.linspace(0, 1, width), np.linspace(0, 1, height))
    layers = [127 + 127 * np.sin(random.uniform(0, 20) * x + random.uniform(0, 20) * y + i) for i in range(4)]
    array = np.stack(layers, -1) + random.normal(0, 20, (height, width, 4))
    array[: height // 3, : width // 3] = random.integers(0, 256, 4)
    rgba = Image.fromarray(np.clip(array, 0, 255).astype(np.uint8), "RGBA")
    if mode == "PA":
        picture = rgba.convert("RGB").quantize(int(random.integers(2, 200)))
        picture.info["transparency"] = 0
        return picture
    if mode == "P":
        return rgba.convert("RGB").quantize(int(random.integers(2, 200)))
    if mode == "I;16":
        return Image.fromarray((np.clip(array[..., 0], 0, 255) * 257).astype(np.uint16))
    return rgba if mode == "RGBA" else rgba.convert("RGB").convert(mode)


def over_white(picture):
    """As floats from 0 to 1, [height, width, 3]."""
    rgba = np.asarray(picture.convert("RGBA"), np.float64) / 255
    return rgba[..., :3] * rgba[..., 3:] + 1 - rgba[..., 3:]


def check_pictures(tally, random, work):
    """PNG and JPEG files of Pillow's modes, read with 1, 3 and 4 channels."""
    from PIL import Image

    modes = [("RGB", "png"), ("RGBA", "png"), ("L", "png"), ("LA", "png"), ("1", "png"), ("P", "png"), ("PA", "png"),
             ("I;16", "png"), ("RGB", "jpg"), ("L", "jpg"), ("CMYK", "jpg"), ("RGB", "progressive")]
    for number in range(COUNTS["pictures"]):
        mode, kind = modes[number % len(modes)]
        picture = drawn_picture(random, mode)
        file = work / f"{number}.{'png' if kind == 'png' else 'jpg'}"
        settings = {} if kind == "png" else {"quality": 90, "progressive": kind == "progressive"}
        if kind == "png" and number % 2 and "transparency" in picture.info:
            settings["transparency"] = 0
        picture.save(file, **settings)
        stored = Image.open(file)
        stored.load()
        if mode == "I;16":
            expected = np.repeat((np.asarray(stored, np.float64) / 65535)[..., None], 3, -1)
        else:
            expected = over_white(stored if mode != "CMYK" else stored.convert("RGB"))
        ours = headway.read_picture(file)
        # JPEG: the two may hold different versions of libjpeg.
        most = 1e-6 if kind == "png" else 3.1 / 255
        close(tally, ours.pixels, expected, most, "read_picture", mode, kind, picture.size)
        if mode not in ("I;16", "CMYK"):
            alpha = headway.read_picture(file, 4).pixels
            close(tally, alpha, np.asarray(stored.convert("RGBA")) / 255, most, "read_picture RGBA", mode, kind)
        if mode in ("RGB", "L", "1", "P"):
            grey = headway.read_picture(file, 1).pixels[..., 0]
            close(tally, grey, np.asarray(stored.convert("RGB").convert("L")) / 255, most, "read_picture grey", mode, kind)
        for channels in (1, 3, 4):
            if mode == "I;16":
                continue
            pixels = headway.read_picture(file, channels).pixels
            back = Image.open(io.BytesIO(headway.encode_png(pixels)))
            tally.check(back.mode == {1: "L", 3: "RGB", 4: "RGBA"}[channels], "encode_png", back.mode, channels)
            close(tally, np.asarray(back).reshape(pixels.shape) / 255, pixels, 0.501 / 255, "encode_png", mode, kind)


def check_orientations(tally, random, work):
    """JPEG files whose Exif data say how they were held."""
    from PIL import Image, ImageOps

    for orientation in range(1, 9):
        picture = drawn_picture(random, "RGB")
        exif = picture.getexif()
        exif[0x0112] = orientation
        picture.save(work / "turned.jpg", exif=exif, quality=95)
        expected = np.asarray(ImageOps.exif_transpose(Image.open(work / "turned.jpg"))) / 255
        ours = headway.read_picture(work / "turned.jpg")
        close(tally, ours.pixels, expected, 3.1 / 255, "Exif orientation", orientation)
        tally.check(("upright" in ours.notes) == (orientation > 1), "Exif orientation", orientation, ours.notes)


def check_sizes(tally, random):
    """resize against Pillow's."""
    from PIL import Image

    filters = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR,
               "bicubic": Image.Resampling.BICUBIC}
    for number in range(COUNTS["sizes"]):
        mode = ["RGB", "L", "RGBA"][number % 3]
        name = list(filters)[number // 3 % 3]
        picture = drawn_picture(random, mode)
        if mode == "RGBA":  # colours of what can hardly be seen are rounded away by Pillow
            picture.putalpha(picture.getchannel("A").point(lambda a: 255 if a > 60 else 0))
        height, width = (int(side) for side in random.integers(1, 120, 2))
        pixels = np.asarray(picture, np.float32).reshape(picture.height, picture.width, -1) / 255
        expected = np.asarray(picture.resize((width, height), filters[name]), np.float64) / 255
        expected = expected.reshape(height, width, -1)
        ours = headway.resize(pixels, height, width, name)
        # Pillow rounds twice, and the weights of a cubic sum up to 1.25 without their signs.
        most = (1.13 if name == "bicubic" else 1.01) / 255
        if mode == "RGBA":
            close(tally, ours[..., 3], expected[..., 3], most, "resize alpha", name)
            ours, expected = ours[..., :3] * ours[..., 3:], expected[..., :3] * expected[..., 3:]
        close(tally, ours, expected, most if mode != "RGBA" else 2.5 / 255, "resize", mode, name, picture.size, width,
              height)


def drawn_input(random, kind):
    """A processor of Transformers."""
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    settings = {"resample": int(random.choice([0, 2, 3]))}
    for flag in ("do_resize", "do_rescale", "do_normalize"):
        settings[flag] = bool(random.random() < 0.85)
    if kind == "vit":
        height, width = (int(side) for side in random.integers(8, 64, 2))
        return ViTImageProcessorPil(size={"height": height, "width": width}, do_convert_rgb=True, **settings)
    crop = {"height": int(random.integers(8, 60)), "width": int(random.integers(8, 60))}
    return CLIPImageProcessorPil(size={"shortest_edge": int(random.integers(8, 60))}, crop_size=crop,
                                 do_center_crop=bool(random.random() < 0.85), **settings)


def check_inputs(tally, random, work):
    """picture_tensor against ViT's and CLIP's processors, and what they write and read."""
    from PIL import Image

    for number in range(COUNTS["inputs"]):
        kind = ["vit", "clip"][number % 2]
        processor = drawn_input(random, kind)
        directory = work / f"{kind}{number}"
        processor.save_pretrained(directory)
        ours = headway.PictureInput.load(directory)
        drawn_picture(random, "RGB").save(work / "input.png")
        picture = Image.open(work / "input.png")
        expected = processor(picture, return_tensors="np")["pixel_values"][0]
        tensor = headway.picture_tensor(headway.read_picture(work / "input.png"), ours)
        close(tally, tensor, expected, 1e-5 * np.abs(expected).max(), kind, processor, ours.resampling)
        again = work / f"{kind}{number}_again"
        again.mkdir()
        ours.save(again)
        same = type(processor).from_pretrained(again)(picture, return_tensors="np")["pixel_values"][0]
        close(tally, same, expected, 0, "PictureInput.save", kind, json.loads((again / "preprocessor_config.json").read_text()))


def main():
    """Everything with one seed."""
    options = parser(__doc__).parse_args()
    tally = Tally("media")
    random = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory)
        check_mel(tally, random, work)
        check_sounds(tally, random, work)
        check_resampling(tally, random)
        check_pictures(tally, random, work)
        check_orientations(tally, random, work)
        check_sizes(tally, random)
        check_inputs(tally, random, work)
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
