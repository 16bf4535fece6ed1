"""Search by text with Transformers, whose attention is Headway's: clip.py TEXT PICTURE...

Needs the packages headway, torch and transformers, and the model that comes with it, models/emoji-clip.
"""

import pathlib
import sys

import headway
import headway.transformers
import torch
import transformers

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models" / "emoji-clip"


def main():
    """Prints the cosine of the text with every picture, the greatest first."""
    text, *files = sys.argv[1:]
    headway.transformers.register()
    model = transformers.CLIPModel.from_pretrained(MODEL, attn_implementation="headway", dtype=torch.float32)
    tokens = headway.TextTokenizer.load(MODEL).encode(text)
    wanted = headway.PictureInput.load(MODEL)
    pixels = [torch.from_numpy(headway.picture_tensor(headway.read_picture(file), wanted)) for file in files]
    with torch.no_grad():
        result = model(input_ids=torch.tensor([tokens]), pixel_values=torch.stack(pixels))
    scores = (result.text_embeds @ result.image_embeds.T)[0]
    for score, file in sorted(zip(scores.tolist(), files), reverse=True):
        print(f"{score:.3f}  {file}")


if __name__ == "__main__":
    main()
