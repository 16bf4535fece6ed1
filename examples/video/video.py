"""The video model from Python: which digit is in a strip of 16 frames, and what it does. video.py MODEL STRIP.png..."""

import json
import pathlib
import sys

import headway
import numpy as np

ACTIONS = ["moves left", "moves right", "moves up", "moves down", "turns clockwise", "turns counter-clockwise", "grows",
           "shrinks", "stands still"]


def load(directory):
    """The config, and the layers by their names; what belongs to no layer stays a tensor."""
    config = json.loads((directory / "config.json").read_text())
    weights = {name: value.to("float32") for name, value in
               headway.load_safetensors(directory / "model.safetensors").items()}
    model = {name: value for name, value in weights.items() if "." not in name}
    for name, value in weights.items():
        if name.endswith(".in_proj_weight"):
            model[name[:-15]] = headway.MultiHeadAttention(value.shape[1], config["heads"])
        elif name.endswith(".linear1.weight"):
            model[name[:-15]] = headway.FeedForward(value.shape[1], hidden=value.shape[0], activation="gelu")
        elif name.endswith("norm.weight"):
            model[name[:-7]] = headway.LayerNorm(value.shape[0])
        elif name in ("patches.weight", "tokens.weight", "action.weight", "digit.weight"):
            model[name[:-7]] = headway.Linear(value.shape[1], value.shape[0])
    for part, layer in model.items():
        if isinstance(layer, headway.Module):
            layer.load_state_dict({name[len(part) + 1:]: weights[name] for name in weights if name.startswith(part + ".")})
    return config, model


def forward(config, model, clip):
    """clip [frames, side, side], 0 to 1 -> logits of actions and digits, weights [1, heads, 2, times * places]."""
    tubelet, patch, stride = config["tubelet"], config["patch"], config["stride"]
    times, corners = config["frames"] // tubelet, range(0, config["side"] - patch + 1, stride)
    blocks = [clip[:, y:y + patch, x:x + patch].reshape(times, -1) for y in corners for x in corners]
    pixels = headway.tensor(4 * np.stack(blocks, 1) - np.float32(1))  # [times, places, pixels of a block]
    x = model["tokens"](headway.ops.activate(model["patches"](pixels), "gelu"))
    x = x + model["space_positions"] + model["time_positions"].reshape([times, 1, -1])
    for name in (f"layers.{i}." for i in range(config["layers"])):
        x = (x + model[name + "space"](model[name + "space_norm"](x))).transpose(0, 1).contiguous()
        x = (x + model[name + "time"](model[name + "time_norm"](x))).transpose(0, 1).contiguous()
        x = x + model[name + "feed_forward"](model[name + "feed_forward_norm"](x))
    memory = model["norm"](x.reshape([1, times * len(blocks), -1]))
    answers, weights = model["answer"](model["questions"].reshape([1, 2, -1]), memory, return_weights=True)
    answers = model["answer_norm"](answers[0])
    return model["action"](answers[0]).numpy(), model["digit"](answers[1]).numpy(), weights


config, model = load(pathlib.Path(sys.argv[1]))
for file in sys.argv[2:]:
    strip, side, frames = headway.read_picture(file, 1).pixels, config["side"], config["frames"]
    if strip.shape != (side, frames * side, 1):
        sys.exit(f"{file}: {strip.shape[1]} x {strip.shape[0]} pixels, expected {frames} frames of {side} x {side}")
    with headway.no_grad():
        action, digit, _ = forward(config, model, strip.reshape(side, frames, side).transpose(1, 0, 2))
    print(f"{file}: digit {digit.argmax()} {ACTIONS[action.argmax()]}")
