"""Trains the EAGLE-3 head on the adapted target's distribution, over several calls.

The first call tries three kinds of output rows for the same time on the same batches: the target's
embedding rows as they are, the same with a low-rank addition, and rows trained in full. The winner
goes on: a costlier kind must match `MARGIN` oftener over the chain. Short unrolls first, then seven
steps; the end of the time on long rows. A training that begins at a head (`--head`) unrolls seven
steps at once and moves from cross-entropy to total variation, which is what refuses a draft.
"""

import os
import random
import time

import held_out
import quantised
import tensor_file
import torch

from head_model import ARMS, Head
from optimizer import Optimizer, schedule
from sparse_model import capture_layers, final_logits
from stage_target import CHECKPOINT_SECONDS, CHUNK, chosen_target
from target_model import linear, rms_norm
from text_rows import DRAFT_MIX, TextRows

STEPS, FIRST_STEPS, FIRST_SHARE = 7, 3, 0.25
STEP_WEIGHT = 0.85
PLAIN_RATE = 1 / 3  # of the rate: norms and output rows, which Adam takes
ROWS_SHARE = 0.75  # of a batch's places carry a loss: answers first, the others drawn
CLOSENESS, RISE = 0.8, 0.3  # of the total variation in the loss, from that share of the time on
MARGIN = {"frozen": 0.0, "low_rank": 0.02, "full": 0.06}


def distributions(h, norm, embedding, rows, eps):
    """The target's likeliest token, and its distribution over the proposed tokens, bf16."""
    best = final_logits(h, norm, embedding, eps).argmax(-1)
    logits = linear(rms_norm(h, norm, eps).to(embedding.dtype), rows).float()
    return best, torch.softmax(logits, -1).to(torch.bfloat16)


class Lesson:
    """One batch through the target: the streams for the head, and what it is to say."""

    def __init__(self, session, target):
        self.session, self.target = session, target
        wrap = (lambda f: torch.compile(f, dynamic=False)) if session.compiled else (lambda f: f)
        self.distributions = wrap(distributions)
        self.layers = capture_layers(session.g)

    @torch.no_grad()
    def give(self, head, tokens, answers, generator):
        """(captured streams, picked places, distributions, likeliest ids) of tokens [B, T]."""
        g, base = self.session.g, self.target.base
        h, captured = self.target(tokens, capture=self.layers)
        picked = picked_places(answers, STEPS, generator)
        flat, norm = h.flatten(0, 1)[picked], base["model.norm.weight"]
        size, best, wanted = min(CHUNK, len(picked)), [], []
        for rows in flat.split(size):
            one = self.distributions(rows, norm, self.target.embedding, head.rows, g.eps)
            best.append(one[0])
            wanted.append(one[1])
        return captured, picked, torch.cat(wanted), head.draft_id[torch.cat(best)]


def picked_places(answers, skipped, generator):
    """Flat indices of the places that carry a loss; a row's first `skipped` never do."""
    luck = torch.rand(answers.shape, device=answers.device, generator=generator) + answers
    luck[:, :skipped] -= 2
    return luck.flatten().topk(int(answers.numel() * ROWS_SHARE)).indices


def learn(head, lesson, batch, steps, closeness, generator):
    """Sums the weighted losses of the unrolled steps and goes backward; returns the matches."""
    captured, picked, wanted, choice = lesson.give(head, *batch, generator)
    rows, g, total, matches = head.output_rows(), head.g, 0.0, []
    for step, h in enumerate(head.unroll(batch[0], captured, steps)):
        flat, norm = h.flatten(0, 1)[picked], head.weights["norm"]
        loss, match = head.loss(flat, norm, rows, wanted, choice, closeness, g.eps)
        total = total + loss * STEP_WEIGHT**step
        matches.append(match)
    total.backward()
    return torch.stack([total.detach() / steps, *matches, *matches[:1] * (STEPS - steps)])


@torch.no_grad()
def deviations(session, target, text):
    """1 / deviation of every captured channel; the first places are outliers and left out."""
    options = session.options
    tokens = text.batch(max(1, options.tokens // options.row), options.row, DRAFT_MIX)
    _, captured = target(tokens, capture=capture_layers(session.g))
    spread = [x[:, 16:].flatten(0, 1).float().std(0).clamp(min=1e-2) for x in captured]
    return 1 / torch.cat(spread)


class Training:
    """A head, its optimizer, and how far it is."""

    def __init__(self, session, target, arm, setting):
        self.session, self.arm = session, arm
        self.head = Head(
            session.g, target.base, setting["tokens"], setting["inverse"], arm, session.compiled
        )
        rate = session.options.rate
        self.optimizer = Optimizer(self.named(), rate, plain_rate=rate * PLAIN_RATE)
        self.step, self.seen, self.seconds, self.curve = 0, 0, 0.0, []

    def named(self):
        """Muon takes the layer's matrices; output rows and their factors go to Adam."""
        for name, value in self.head.weights.items():
            yield ("lm_head" if "lm_head" in name else name), value

    def state(self):
        state = {"head": self.head.state_dict(), "adam": self.optimizer.adam.state_dict()}
        state |= {"buffers": {str(k): v for k, v in self.optimizer.buffers.items()}}
        return state | {"step": self.step, "seen": self.seen, "seconds": self.seconds}

    def restore(self, state):
        self.head.load_state_dict(state["head"])
        self.optimizer.adam.load_state_dict(state["adam"])
        for shape, buffer in self.optimizer.buffers.items():
            buffer.copy_(state["buffers"][str(shape)])
        self.step, self.seen, self.seconds = state["step"], state["seen"], state["seconds"]

    def begin_at(self, tensors, seconds):
        """Takes an exported head, as if `seconds` of the schedule had made it."""
        self.seconds = seconds
        with torch.no_grad():
            for name, value in self.head.weights.items():
                key = name.replace("lm_head:", "lm_head.lora_")
                key = key if key != name else name.replace(":", ".") + ".weight"
                values = torch.from_numpy(tensors[key].copy()).to(value.device)
                # The file's fc reads the streams as they are; here they come divided.
                value.copy_(values / self.head.inverse if name == "fc" else values)

    def keep(self):
        session = self.session
        session.save("draft.pt", self.state())
        tensors = {"draft_tokens": self.head.draft_tokens.cpu().numpy()}
        for name, x in self.head.exported().items():
            if name == "lm_head.weight":
                for half, rows in enumerate((x[: len(x) // 2], x[len(x) // 2 :])):
                    path = os.path.join(session.out, f"rows-{half}.safetensors")
                    tensor_file.write(path, {name: tensor_file.Bf16(rows)})
            else:
                tensors[name] = tensor_file.Bf16(x)
        tensor_file.write(os.path.join(session.out, "head-bf16.safetensors"), tensors)
        figures = {"arm": self.arm, "step": self.step, "tokens": self.seen}
        session.note("draft", figures | {"seconds": self.seconds, "curve": self.curve})


def shape_at(options, progress):
    """Rows, length and unrolled steps at a share of the whole time."""
    length = options.far if progress > 1 - options.far_share else options.row
    steps = FIRST_STEPS if progress < FIRST_SHARE and not options.head else STEPS
    return max(1, options.tokens // length), length, steps


def go(training, lesson, text, until, total, seed):
    """Trains until `until` seconds of the training's own clock, of `total` in all."""
    session, latest = training.session, []
    options, began = session.options, time.time() - training.seconds
    generator = torch.Generator(device=session.device).manual_seed(seed)
    text.random, saved = random.Random(seed), time.time()
    compiled, closeness = set(), torch.zeros((), device=session.device)
    while training.seconds < until and session.left() > 12:
        progress = training.seconds / total
        rows, length, steps = shape_at(options, progress)
        batch = text.answers(rows, length, DRAFT_MIX)
        closeness.fill_(CLOSENESS * min(1, progress / RISE) if options.head else 0.0)
        mark = time.time()
        figures = learn(training.head, lesson, batch, steps, closeness, generator)
        if (length, steps) not in compiled:  # compiling is no training: the clock stands still
            session.synchronize()
            began += time.time() - mark
            compiled.add((length, steps))
            waited = f"{time.time() - mark:.1f} s"
            session.log("draft compiled", length, steps, waited, session.memory())
        training.optimizer.step(schedule(progress, training.step, warmup=40, end=0.02))
        latest.append(figures)
        training.step += 1
        training.seen += batch[0].numel()
        if training.step % 10 == 0:
            session.synchronize()
            training.seconds = time.time() - began
        if training.step % 50 == 0:
            mean = [round(x, 4) for x in torch.stack(latest).mean(0).tolist()]
            at = [training.step, training.seen, round(training.seconds, 1), length, steps]
            training.curve.append(at + mean)
            session.log(training.arm, training.curve[-1])
            latest = []
            if mean[0] != mean[0]:
                raise RuntimeError("the loss is not a number")
        if time.time() - saved > CHECKPOINT_SECONDS and until == total:
            training.keep()
            saved = time.time()


@torch.no_grad()
def held_out_match(training, lesson, text):
    """Match of each unrolled step on held-out rows, and the chain they would make."""
    session, g = training.session, training.session.g
    options, head = session.options, training.head
    rows, found = max(1, options.tokens // options.row), {}
    for regime in text.regimes():
        tokens = text.held_out(regime, rows, options.row)
        h, captured = lesson.target(tokens, capture=lesson.layers)
        norm, flat = lesson.target.base["model.norm.weight"], h.flatten(0, 1)
        best = [
            final_logits(x, norm, lesson.target.embedding, g.eps).argmax(-1)
            for x in flat.split(CHUNK)
        ]
        choice = head.draft_id[torch.cat(best)].view(tokens.shape)
        weights, hits = head.output_rows(), []
        for h in head.unroll(tokens, captured, STEPS):
            x = rms_norm(h, head.weights["norm"], g.eps).to(weights.dtype).flatten(0, 1)
            guess = torch.cat([linear(part, weights).argmax(-1) for part in x.split(CHUNK)])
            hits.append(guess.view(tokens.shape) == choice)
        # A chain from c takes step j at place c + j − 1.
        low, high = STEPS + 1, tokens.shape[1] - STEPS
        chain = torch.stack([hit[:, low + j : high + j] for j, hit in enumerate(hits)]).float()
        length = 1 + chain.cumprod(0).sum(0).mean().item()
        first = [round(hit[:, low:high].float().mean().item(), 4) for hit in hits]
        found[regime] = {"chain": round(length, 4), "match": first}
    return found


@torch.no_grad()
def held_out_answers(training, lesson, text):
    """held_out.py's figures of the seven steps on sampled and on greedy answers."""
    session, head, target = training.session, training.head, lesson.target
    g, found = session.g, {}

    def target_logits(tokens):
        flat, norm = target(tokens)[0].flatten(0, 1), target.base["model.norm.weight"]
        return lambda at: final_logits(flat[at], norm, target.embedding, g.eps)

    def head_logits(tokens):
        _, captured = target(tokens, capture=lesson.layers)
        steps = [h.flatten(0, 1) for h in head.unroll(tokens, captured, STEPS)]
        rows, norm = head.output_rows(), head.weights["norm"]
        return lambda at: [final_logits(h[at], norm, rows, g.eps) for h in steps]

    for split in ("test", "greedy"):
        if split in text.written:
            call = text, split, target_logits, head_logits, head.draft_tokens, g.vocab_size
            found[split] = held_out.measure(
                *call, rows=session.options.tokens // session.options.row
            )
    return found


def stored_head(head, out):
    """Writes what ships, matrices in eight bits; the head goes on with the weights of the file."""
    tensors = {"draft_tokens": head.draft_tokens.cpu().numpy()}
    for name, values in head.exported().items():
        if values.ndim == 1:
            tensors[name] = tensor_file.Bf16(values)
        else:
            # fc's columns differ in size by orders of magnitude, the rows of the others less.
            tile = (len(values), 1) if name == "fc.weight" else (1, values.shape[1])
            tensors |= quantised.stored(name, values, tile, 127)
    tensor_file.write(os.path.join(out, "head.safetensors"), tensors)
    return quantised.whole(tensor_file.read(os.path.join(out, "head.safetensors")))


def compare(session, target, lesson, text, setting):
    """Each kind of head for the same time; the winner's training goes on."""
    tried, best, until = {}, None, session.options.arm_seconds
    for arm in ARMS:
        training = Training(session, target, arm, setting)
        # The trial's schedule ends far off: every arm is seen at the full rate.
        go(training, lesson, text, until, until * 8, seed=11)
        found = held_out_match(training, lesson, text)
        mean = sum(x["chain"] for x in found.values()) / len(found)
        tried[arm] = {"steps": training.step, "held_out": found, "mean_chain": round(mean, 4)}
        session.log("trial", arm, tried[arm])
        if best is None or mean - MARGIN[arm] > best[0]:
            best = mean - MARGIN[arm], training
    session.note("head_trial", tried | {"chosen": best[1].arm})
    return best[1]


def run(session, seconds):
    options, g = session.options, session.g
    text = TextRows(options.data, session.work, session.device, g.vocab_size)
    target = chosen_target(session)
    lesson = Lesson(session, target)
    setting, begun = session.load("draft-setting.pt"), None
    if options.head:
        begun = quantised.whole(tensor_file.read(options.head))
    if setting is None:
        count = min(options.vocab, g.vocab_size // 2)
        tokens = text.commonest(count, g.vocab_size)
        if begun:
            tokens = torch.from_numpy(begun["draft_tokens"].copy()).to(session.device)
        setting = {"tokens": tokens, "inverse": deviations(session, target, text)}
        session.save("draft-setting.pt", setting)
    kept = session.load("draft.pt")
    if kept is None and begun:
        session.note("head_trial", {"chosen": "low_rank"})
        training = Training(session, target, "low_rank", setting)
        training.begin_at(begun, options.head_seconds)
    elif kept is None:
        training = compare(session, target, lesson, text, setting)
        training.keep()
    else:
        training = Training(session, target, session.record()["head_trial"]["chosen"], setting)
        training.restore(kept)
        training.curve = session.record()["draft"]["curve"]
    if training.step == 0 and begun:
        report(session, "draft_before", training, lesson, text)
    options.call_seconds = min(options.call_seconds, time.time() - session.began + seconds)
    total = options.draft_seconds
    go(training, lesson, text, total, total, seed=100 + training.step)
    training.keep()
    report(session, "draft_held_out", training, lesson, text)
    if training.arm != "full":
        training.begin_at(stored_head(training.head, session.out), training.seconds)
        report(session, "draft_stored", training, lesson, text)


def report(session, name, training, lesson, text):
    found = {"step": training.step, "held_out": held_out_match(training, lesson, text)}
    session.log(name, training.step, found["held_out"])
    if text.chosen:
        found["answers"] = held_out_answers(training, lesson, text)
        session.log(name, "answers", found["answers"])
    session.note(name, found)
