"""The gesture model from Python: gestures.py MODEL ROWS.csv says what the finger of each row did."""

import json
import pathlib
import sys

import headway
import numpy as np

NAMES = ["stop", "clockwise", "counter clockwise", "move"]


def load(directory):
    """The config, the weights, and the layers."""
    config = json.loads((directory / "config.json").read_text())
    weights = {name: value.to("float32") for name, value in
               headway.load_safetensors(directory / "model.safetensors").items()}
    layers = {
        "points": headway.Linear(2, config["width"]),
        "positions": headway.LearnedPositions(config["width"], max_length=17),
        "encoder": headway.TransformerEncoder(
            d_model=config["width"], nhead=config["heads"], dim_feedforward=config["hidden"], dropout=0.0,
            activation="gelu", norm_first=True, num_layers=config["layers"], final_norm=True),
        "output": headway.Linear(config["width"], len(NAMES)),
    }
    for part, layer in layers.items():
        layer.load_state_dict({name[len(part) + 1:]: weights[name] for name in weights if name.startswith(part + ".")})
        layer.eval()
    return weights, layers


def forward(weights, layers, points):
    """points [batch, 16, 2] -> logits [batch, 4], and the weights of each layer [batch, heads, 17, 17]."""
    x = layers["points"](headway.tensor(10 * points))
    first = headway.tensor(np.repeat(weights["class_token"].numpy()[None], len(points), 0))
    encoded, attention = layers["encoder"](layers["positions"](headway.ops.concat([first, x], 1)), return_weights=True)
    return layers["output"](encoded.transpose(0, 1)[0]).numpy(), attention


weights, layers = load(pathlib.Path(sys.argv[1]))
rows = np.loadtxt(sys.argv[2], delimiter=",", dtype=np.float32, ndmin=2)
if rows.shape[1] not in (32, 33):
    sys.exit(f"{sys.argv[2]}: rows of {rows.shape[1]} numbers, expected x and y of 16 points, or those after a class")
with headway.no_grad():
    logits, attention = forward(weights, layers, rows[:, -32:].reshape(-1, 16, 2))
for number, row in enumerate(logits, 1):
    print(f"row {number}: {NAMES[row.argmax()]}")
