"""Attention from Python: shapes, weights, gradients, and a layer that learns to copy its input's first token."""

import headway
import numpy as np

random = np.random.default_rng(0)
query, key, value = (random.standard_normal((1, 4, 6, 16)).astype(np.float32) for _ in range(3))

# The output and the weights of every head: each row says where one query looks.
output, weights = headway.attention(query, key, value, causal="top_left", return_weights=True)
print("output", output.shape, "weights", weights.shape)
print(np.round(weights[0, 0], 2))

# Gradients from the output, the log-sum-exp and the same options.
output, logsumexp = headway.attention(query, key, value, causal="top_left", return_logsumexp=True)
gradients = headway.attention_backward(
    np.ones_like(output), query, key, value, output, logsumexp, causal="top_left"
)
print("gradient of the query", gradients.query.shape)

# A layer with parameters: only headway.Tensor records gradients.
headway.set_random_seed(0)
layer = headway.MultiHeadAttention(embed_dim=16, num_heads=4)
optimizer = headway.AdamW(layer, learning_rate=5e-3)
x = random.standard_normal((8, 6, 16)).astype(np.float32)
target = headway.tensor(np.repeat(x[:, :1], 6, 1))
inputs = headway.tensor(x)
for step in range(1, 201):
    difference = headway.ops.sub(layer(inputs), target)
    loss = headway.ops.mean(headway.ops.mul(difference, difference))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step in (1, 50, 200):
        print(f"step {step}: loss {loss.item():.3f}")
print(headway.info())
