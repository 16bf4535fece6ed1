#!/usr/bin/env python3
"""The PyTorch side of `headway finetune`: the same data, order of batches, rates and scores, by transformers.

    finetune_torch.py OUTPUT/training_config.json [--device cuda] [--steps N] [--compile] [--speed]

reads the settings of a run that Headway made and repeats it from the same weights (models from nothing: from the same
config and tokenizer, with PyTorch's own initial values). --speed measures a few steps and scores nothing.
"""

import argparse
import json
import math
import pathlib
import time

import numpy
import torch
import transformers
from finetune_tasks import TASKS


def rate_at(step, steps, config):
    """The learning rate of a step from 1 on, as src/train/schedule.cpp has it."""
    warmup = min(config["warmup_steps"] or int(config["warmup_share"] * steps), steps)
    peak, last = config["learning_rate"], min(config["final_rate"], config["learning_rate"])
    if step <= warmup:
        return peak * step / warmup
    share = (step - warmup) / max(steps - warmup, 1)
    if config["schedule"] == "cosine":
        return last + (peak - last) * 0.5 * (1.0 + math.cos(math.pi * share))
    return peak if config["schedule"] == "constant" else peak + (last - peak) * share


def make_model(config, task, output):
    """From the same directory, or with PyTorch's initial values from the config that Headway wrote."""
    torch.manual_seed(config["seed"])
    labels = {}
    if task.labels:
        labels = {"num_labels": len(task.labels)}
    if config["model"]:
        return task.architecture.from_pretrained(config["model"], **labels)
    return task.architecture.from_config(transformers.AutoConfig.from_pretrained(output))


def make_optimizer(config, model, fused):
    """AdamW; decay on matrices alone."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in trained if p.dim() > 1], "weight_decay": config["weight_decay"]},
              {"params": [p for p in trained if p.dim() <= 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=config["learning_rate"], betas=(config["beta1"], config["beta2"]),
                             eps=config["epsilon"], fused=fused)


def evaluate(model, task, examples):
    """The task's scores."""
    model.eval()
    with torch.no_grad():
        scores = task.scores(model, examples)
    model.train()
    return scores


def show(name, scores):
    """One line."""
    print(name + ": " + ", ".join(f"{key} {value:.4f}" for key, value in scores.items()), flush=True)


def run(options):
    """Trains and scores."""
    output = pathlib.Path(options.config).parent
    config = json.loads(pathlib.Path(options.config).read_text(encoding="utf-8"))
    if config["freeze_layers"] or config["freeze_embeddings"] or config["accumulate"] != 1:
        raise SystemExit("freezing and accumulation are not repeated here")
    tokenizer = transformers.AutoTokenizer.from_pretrained(config["model"] or output)
    task = TASKS[config["task"]](config, tokenizer, options.device)
    model = make_model(config, task, output).to(options.device).train()
    task.model_length = getattr(model.config, "n_positions", 512)
    if config["task"] == "answer":
        task.labels = None
    optimizer = make_optimizer(config, model, fused=True)
    plan = task.plan()
    steps = options.steps or config["steps"] or config["epochs"] * plan.count()
    every = config["validate_every"] or plan.count()
    half = options.bfloat16 or config["precision"] == "bfloat16"
    compiled = torch.compile(model) if options.compile else model
    best, times, processor = None, [], []
    for step in range(1, steps + 1):
        begin, processor_begin = time.perf_counter(), time.process_time()
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, steps, config)
        with torch.autocast(options.device.split(":")[0], torch.bfloat16, enabled=half):
            loss = task.loss(compiled, step - 1)
        loss.backward()
        if config["clip_norm"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), config["clip_norm"])
        optimizer.step()
        optimizer.zero_grad()
        if options.device != "cpu":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
        processor.append(time.process_time() - processor_begin)
        if options.speed:
            continue
        if step % 100 == 0:
            print(f"step {step}/{steps}, loss {loss.item():.4f}, {numpy.median(times[-100:]) * 1e3:.1f} ms", flush=True)
        if len(task.validation) and (step % every == 0 or step == steps):
            scores = evaluate(model, task, task.validation)
            show(f"step {step}: validation", scores)
            best = min(best or math.inf, scores["loss"]) if "loss" in scores else best
    print(f"median of a step: {numpy.median(times[len(times) // 4:]) * 1e3:.2f} ms", flush=True)
    print(f"processor time of a step: {numpy.median(processor[len(processor) // 4:]) * 1e3:.2f} ms", flush=True)
    if best is not None:
        print(f"best validation loss: {best:.4f}")
    if len(task.test) and not options.speed:
        show("test", evaluate(model, task, task.test))


def main():
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", help="training_config.json in the directory of a model that Headway trained")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    run(options)


if __name__ == "__main__":
    main()
