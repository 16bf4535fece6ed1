#!/usr/bin/env python3
"""The model of examples/recommend in PyTorch: the same parameters, data, steps and loss, by transformers' GPT2Model with
padded batches. Prints the figures of `example_recommend evaluate`.

recommend_torch.py DATA [--steps 9600] [--seed 1] [--part test]
"""

import argparse
import math
import pathlib
import sys
import time

import numpy as np
import torch
from transformers import GPT2Config, GPT2Model

POSITIONS, WIDTH, HIDDEN, LAYERS, HEADS = 50, 56, 112, 2, 2
USERS, NEGATIVES = 128, 512


def read_users(data):
    """The items of each user, oldest first."""
    users = {}
    for line in (data / "Video.txt" if data.is_dir() else data).read_text().splitlines():
        user, item = map(int, line.split())
        users.setdefault(user, []).append(item)
    return list(users.values())


class Batches:
    """Histories without their last item, what follows at each place, and the items that are scored there."""

    def __init__(self, training, items, seed):
        self.random = np.random.default_rng(seed)
        self.training = [items_of for items_of in training if len(items_of) >= 2]
        self.items, self.order = items, []
        counts = np.bincount(np.concatenate(training), minlength=items + 1)
        self.shares = counts / counts.sum()

    def next(self):
        if not self.order:
            order = self.random.permutation(len(self.training))
            self.order = [order[i : i + USERS] for i in range(0, len(order), USERS)][::-1]
        histories = [self.training[user][-POSITIONS - 1 :] for user in self.order.pop()]
        longest = max(map(len, histories)) - 1
        tokens = np.zeros((len(histories), longest), np.int64)
        following = np.zeros_like(tokens)
        for row, history in enumerate(histories):
            tokens[row, : len(history) - 1], following[row, : len(history) - 1] = history[:-1], history[1:]
        targets = following[following > 0]
        drawn = self.random.integers(1, self.items + 1, NEGATIVES)
        candidates = np.unique(np.concatenate([targets, drawn]))
        missing = NEGATIVES * math.log1p(-1 / self.items) + len(targets) * np.log1p(-self.shares[candidates])
        chances = np.log(-np.expm1(missing)).astype(np.float32)
        return tokens, following > 0, candidates, chances, np.searchsorted(candidates, targets)


def make_model(items, dropout):
    return GPT2Model(GPT2Config(vocab_size=items + 1, n_positions=POSITIONS, n_embd=WIDTH, n_layer=LAYERS,
                                n_head=HEADS, n_inner=HIDDEN, resid_pdrop=dropout, embd_pdrop=dropout,
                                attn_pdrop=dropout, bos_token_id=None, eos_token_id=None))


def train(model, batches, options):
    """The optimizer, the schedule and the clipping of the example programs."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": options.weight_decay},
                                   {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.98))
    warmup = options.steps // 20
    model.train()
    for step in range(1, options.steps + 1):
        done = (step - warmup) / max(options.steps - warmup, 1)
        factor = step / warmup if step <= warmup else 0.5 * (1 + math.cos(math.pi * done))
        for group in optimizer.param_groups:
            group["lr"] = options.learning_rate * factor
        tokens, real, candidates, chances, targets = map(torch.from_numpy, batches.next())
        hidden = model(input_ids=tokens).last_hidden_state[real]  # causal: padding at the end is never looked at
        scores = torch.nn.functional.linear(hidden, model.wte.weight[candidates], -chances)
        loss = torch.nn.functional.cross_entropy(scores, targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 500 == 0:
            print(f"step {step}: loss {loss.item():.4f}", file=sys.stderr, flush=True)


def evaluate(model, questions, items, draws=5):
    """Hit rate and NDCG at 10: of every draw of 100 negatives, among all items, among those not in the history."""
    model.eval()
    random = [np.random.default_rng(draw) for draw in range(1, draws + 1)]
    sums = np.zeros((draws + 2, 2))
    for first in range(0, len(questions), 256):
        part = questions[first : first + 256]
        tokens = torch.zeros((len(part), POSITIONS), dtype=torch.int64)
        last = torch.tensor([min(len(history), POSITIONS) - 1 for history, _ in part])
        for row, (history, _) in enumerate(part):
            tokens[row, : last[row] + 1] = torch.tensor(history[-POSITIONS:])
        with torch.no_grad():
            hidden = model(input_ids=tokens).last_hidden_state[torch.arange(len(part)), last]
            scores = (hidden @ model.wte.weight.T).numpy()
        for (history, answer), row in zip(part, scores, strict=True):
            above = row >= row[answer]
            above[0] = False
            ranks = []
            for generator in random:
                drawn = generator.integers(1, items + 1, 400)
                ranks.append(1 + above[drawn[~np.isin(drawn, [*history, answer])][:100]].sum())
            ranks += [above.sum(), above.sum() - above[list(set(history) - {answer})].sum()]
            sums += [[rank <= 10, (rank <= 10) / math.log2(rank + 1)] for rank in ranks]
    return sums / len(questions)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=9600)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--weight-decay", type=float, default=0.5)
    parser.add_argument("--dropout", type=float, default=0.4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", choices=["test", "validation"], default="test")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    users = read_users(options.data)
    items = max(map(max, users))
    cut = 1 if options.part == "test" else 2
    questions = [(user[:-cut], user[-cut]) for user in users if len(user) >= 3]
    model = make_model(items, options.dropout)
    print(sum(p.numel() for p in model.parameters()), "parameters", file=sys.stderr)
    start = time.process_time()
    train(model, Batches([user[:-2] if len(user) >= 3 else user for user in users], items, options.seed), options)
    print(f"trained in {time.process_time() - start:.0f} s of processor time")
    figures = evaluate(model, questions, items)
    for name, (hits, ndcg) in zip(["sampled", "deviation", "all items", "not in the history"],
                                  [figures[:-2].mean(0), figures[:-2].std(0, ddof=1), *figures[-2:]], strict=True):
        print(f"{name:20} HR@10 {hits:.4f}  NDCG@10 {ndcg:.4f}")


if __name__ == "__main__":
    main()
