"""Trains the demo pair on one GPU and writes its model folder, loss curves and figures.

    python train.py --data DATA --out OUT

The target first (byte-level, time-bounded), rounded to bf16 as exported and frozen; then the draft
on the target's soft distribution, unrolled seven steps; then evaluate.py. DATA is corpus.py's
output folder; OUT gets the pair's folder nsa, steps.csv and record.json.
"""

import argparse
import csv
import json
import os
import platform
import time

import torch
import torch.nn.functional as F

import evaluate
import export
from draft_model import Draft, DraftPieces
from optimizer import Optimizer, schedule
from target_model import Geometry, Pieces, Target, round_to_bf16
from text_data import KINDS, Batches
from train_shapes import DRAFT_LENGTH, FIRST, LONG, SHORT, STEPS

DATE = "2026-11-21"
MIX = {"code": 0.32, "prose": 0.24, "chat": 0.18, "plan": 0.12, "recall": 0.14}
FAR_MIX = {"code": 0.28, "prose": 0.19, "chat": 0.17, "plan": 0.11, "recall": 0.25}
LAYER_IDS = (2, 5, 8)


def log(*words):
    print(f"[{time.strftime('%H:%M:%S')}]", *words, flush=True)


def shape_of(g):
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    return {name: getattr(g, name) for name in (*names, "num_key_value_heads", "head_dim")}


def target_loss(target, tokens):
    h, _ = target(tokens[:, :-1])
    return F.cross_entropy(target.logits(h).flatten(0, 1), tokens[:, 1:].flatten())


def held_out_loss(target, held, batch):
    """Quick bits per byte by kind at the short length, for the curve."""
    found = {}
    for kind in KINDS:
        loss = target_loss(target, held.windows(kind, batch, SHORT))
        found[kind] = loss.item() / 0.6931471805599453
    return found


def synchronize():
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Clock:
    """Time spent training, compilation left out: seconds since `start`."""

    def __init__(self, seconds):
        self.seconds, self.began = seconds, time.time()

    def progress(self):
        synchronize()
        return (time.time() - self.began) / self.seconds


def train_target(target, train, held, options, rows, save):
    """Short sequences first, long ones for the last part of the time; save() at every tenth."""
    optimizer = Optimizer(target.weights.items(), options.target_rate)
    phases = ((options.first_share, FIRST), (1 - options.far_share, SHORT), (float("inf"), LONG))
    for _, length in phases:
        began = time.time()
        target_loss(target, train.sample(MIX, options.tokens // length, length)).backward()
        synchronize()
        target.zero_grad(set_to_none=True)
        log(f"target compiled at {length} in {time.time() - began:.1f} s")
    clock, step, seen, progress, marks = Clock(options.target_seconds), 0, 0, 0.0, 0
    while progress < 1:
        length = next(length for until, length in phases if progress < until)
        mix = FAR_MIX if length == LONG else MIX
        loss = target_loss(target, train.sample(mix, options.tokens // length, length))
        loss.backward()
        norm = optimizer.step(schedule(progress, step))
        step, seen = step + 1, seen + options.tokens
        if step % 10 == 0:
            progress = clock.progress()
            row = {"part": "target", "step": step, "seconds": round(progress * clock.seconds, 2)}
            row |= {"tokens": seen, "length": length, "loss": loss.item() / 0.6931471805599453}
            rows.append(row)
            if step % 100 == 0:
                log(row, f"norm {norm.item():.3f}")
            if progress > (marks + 1) * 0.1:
                marks += 1
                write_steps(os.path.join(options.out, "steps.csv"), rows)
                row["held_out"] = held_out_loss(target, held, options.tokens // SHORT)
                log("held out", row["held_out"])
                save()
                clock.began += time.time() - clock.began - progress * clock.seconds
    round_to_bf16(target)
    return {"steps": step, "tokens": seen, "seconds": clock.seconds}


def draft_pieces_of(tokens, captured, logits):
    """Cuts sequences into rows of DRAFT_LENGTH with their starting positions."""
    batch, length = tokens.shape
    parts = length // DRAFT_LENGTH
    starts = torch.arange(parts, device=tokens.device).repeat(batch) * DRAFT_LENGTH
    cut = [x.reshape(batch * parts, DRAFT_LENGTH, -1) for x in captured]
    logits = logits.reshape(batch * parts, DRAFT_LENGTH, -1)
    return tokens.reshape(batch * parts, DRAFT_LENGTH), starts, cut, logits


def teach(target, draft, tokens):
    """One batch's draft loss, summed over the unrolled steps, and the match of each step."""
    h, captured = target(tokens[:, :-1], capture=draft.layer_ids)
    captured, logits = [x.detach() for x in captured], target.logits(h.detach()).detach()
    tokens, starts, captured, logits = draft_pieces_of(tokens[:, :-1], captured, logits)
    embedding = target.weights["model:embed_tokens"].detach()
    total, losses, best = 0.0, [], logits.argmax(-1)
    matches = []
    for step, loss, guess in draft.unroll(
        tokens, starts, captured, embedding, logits, STEPS, skip=512
    ):
        total = total + loss * 0.95 ** (step - 1)
        losses.append(loss.detach())
        matches.append((guess == best)[:, 512:].float().mean())
    return total / STEPS, losses, matches


def train_draft(target, draft, train, options, rows):
    optimizer = Optimizer(draft.weights.items(), options.draft_rate)
    began = time.time()
    teach(target, draft, train.sample(MIX, options.tokens // SHORT, SHORT))[0].backward()
    synchronize()
    draft.zero_grad(set_to_none=True)
    log(f"draft compiled in {time.time() - began:.1f} s")
    clock, step, seen, progress = Clock(options.draft_seconds), 0, 0, 0.0
    while progress < 1:
        length = LONG if step % 3 == 2 else SHORT
        tokens = train.sample(MIX, options.tokens // length, length)
        loss, losses, matches = teach(target, draft, tokens)
        loss.backward()
        optimizer.step(schedule(progress, step))
        step, seen = step + 1, seen + options.tokens
        if step % 10 == 0:
            progress = clock.progress()
            row = {"part": "draft", "step": step, "seconds": round(progress * clock.seconds, 2)}
            row |= {"tokens": seen, "length": length, "loss": sum(x.item() for x in losses) / STEPS}
            row["match"] = [round(x.item(), 4) for x in matches]
            rows.append(row)
            if step % 50 == 0:
                log(row)
    round_to_bf16(draft)
    return {"steps": step, "tokens": seen, "seconds": clock.seconds}


def write_steps(path, rows):
    fields = ("part", "step", "seconds", "tokens", "length", "loss", "held_out", "match")
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(rows)


def environment(options):
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor()
    versions = {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
    }
    return {
        "date": DATE,
        "device": device,
        "versions": versions,
        "options": vars(options),
        "mix": MIX,
        "far_mix": FAR_MIX,
    }


def options_of(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda", help="cpu only to try the script")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=65536, help="tokens a step")
    parser.add_argument("--target-seconds", type=float, default=620)
    parser.add_argument("--draft-seconds", type=float, default=280)
    parser.add_argument("--target-rate", type=float, default=3e-3)
    parser.add_argument("--draft-rate", type=float, default=3e-3)
    parser.add_argument("--first-share", type=float, default=0.42, help="share of time at 2K")
    parser.add_argument("--far-share", type=float, default=0.3, help="share of time at 16K")
    parser.add_argument("--contexts", type=int, default=40, help="contexts a regime and bucket")
    return parser.parse_args(arguments)


def nsa_draft(target, train, options, rows, record, folder):
    small = Geometry(intermediate_size=1280)
    draft = Draft(small, LAYER_IDS, target, DraftPieces(compiled=options.device != "cpu"))
    draft.to(options.device)
    record["draft"] = train_draft(target, draft, train, options, rows)
    config = export.draft_config(shape_of(small), LAYER_IDS)
    export.write_model(folder + "/draft", config, draft.exported(), one_file=True)
    return draft


def main():
    options = options_of()
    torch.manual_seed(options.seed)
    torch._dynamo.config.cache_size_limit = 64
    torch.set_float32_matmul_precision("high")
    os.makedirs(options.out, exist_ok=True)
    train = Batches(options.data, options.device, options.seed)
    held = Batches(options.data, options.device, options.seed, "test")
    log("train bytes", train.bytes(), "test bytes", held.bytes())
    rows, g = [], Geometry()
    target = Target(g, Pieces() if options.device != "cpu" else None).to(options.device)
    folder = os.path.join(options.out, "nsa")

    def save():
        config = export.target_config(shape_of(g))
        export.write_model(folder, config, target.exported())

    record = environment(options)
    record["target"] = train_target(target, train, held, options, rows, save)
    save()
    write_steps(os.path.join(options.out, "steps.csv"), rows)
    log("target exported", record["target"])
    draft = nsa_draft(target, train, options, rows, record, folder)
    write_steps(os.path.join(options.out, "steps.csv"), rows)
    log("draft exported", record["draft"])
    record_path = os.path.join(options.out, "record.json")
    export.write_json(record_path, record)
    for name, figures in evaluate.figures(target, draft, held, options.contexts):
        record[name] = figures
        export.write_json(record_path, record)
        log(name, json.dumps(figures)[:2000])


if __name__ == "__main__":
    main()
