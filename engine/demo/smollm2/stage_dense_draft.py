"""Trains the dense draft: four layers that guess what the dense model's thirty would say.

The first two are the model's own and stay as they are; two more are trained in full, stored as
four-bit integers (quantised.py) and trained as such, the rounding passed straight through. The
output rows are the embedding, the final norm is the draft's own. Two choices of the layers at which
the trained ones begin are tried; the better goes on.
"""

import os
import time

import held_out
import quantised
import tensor_file
import torch

from head_model import apart
from optimizer import Optimizer, schedule
from sparse_model import final_logits, matrices
from stage_draft import CLOSENESS, RISE, picked_places
from stage_target import CHUNK, build
from target_model import causal_attention
from text_rows import DRAFT_MIX, TextRows

KEPT = 2
ARMS = {"first": (2, 3), "last": (28, 29)}
GROUP, MOST = 32, 7  # weights that share a scale; the largest level
RATE, PLAIN_RATE = 3e-3, 1e-3
NORMS = ("input_layernorm", "post_attention_layernorm")


def straight(w):
    """The stored weights of w, in float32; the gradient goes to w."""
    grouped = w.detach().unflatten(1, (-1, GROUP))
    scale = (grouped.abs().amax(-1, keepdim=True) / MOST).clamp(min=1e-20).bfloat16().float()
    level = torch.round(grouped / scale).clamp(-MOST, MOST)
    return w + ((level * scale).bfloat16().float().flatten(1) - w.detach())


def loss_of(h, wanted, own_norm, norm, embedding, closeness, eps):
    p = torch.softmax(final_logits(wanted, norm, embedding, eps), -1)
    logits = final_logits(h, own_norm, embedding, eps)
    same = (logits.argmax(-1) == p.argmax(-1)).float().mean()
    return apart(logits, p, closeness).mean(), same


class DenseDraft(torch.nn.Module):
    def __init__(self, model, begin):
        """model: the dense model as a SparseModel; begin: the layers at which the trained begin."""
        super().__init__()
        self.model, self.g, self.pieces = model, model.g, model.pieces
        self.weights = torch.nn.ParameterDict()
        for i, layer in enumerate(begin):
            for name, value in model.dense_weights(layer).items():
                self.keep(f"{KEPT + i}:{name.removesuffix('.weight').replace('.', ':')}", value)
        self.keep("norm", model.base["model.norm.weight"])
        self.layers = len(begin)

    def keep(self, name, value):
        self.weights[name] = torch.nn.Parameter(value.detach().to(torch.float32, copy=True))

    def layer_weights(self):
        """The weights of every layer, the trained matrices as they are stored."""
        out = [self.model.dense_weights(i) for i in range(KEPT)]
        for i in range(KEPT, KEPT + self.layers):
            named = {}
            for name in (*NORMS, *matrices(self.g)):
                value = self.weights[f"{i}:{name.replace('.', ':')}"]
                named[f"{name}.weight"] = straight(value) if value.ndim == 2 else value
            out.append(named)
        return out

    def forward(self, tokens):
        """The stream leaving the last layer."""
        table, _ = self.model.tables(tokens.shape[1], tokens.device)
        h = torch.nn.functional.embedding(tokens, self.model.embedding).float()
        for i, w in enumerate(self.layer_weights()):
            with torch.set_grad_enabled(torch.is_grad_enabled() and i >= KEPT):
                parts = self.pieces.project(h, w, table, self.g)
                mixed = causal_attention(parts["q"], parts["k"], parts["v"])
                h = self.pieces.finish(h, None, (mixed,), w, self.g)
        return h

    def stored(self):
        """What ships, under the loader's names."""
        out = {"model.norm.weight": tensor_file.Bf16(self.weights["norm"].detach().cpu().numpy())}
        for name, value in self.weights.items():
            if name != "norm":
                layer, rest = name.split(":", 1)
                key = f"model.layers.{layer}.{rest.replace(':', '.')}.weight"
                values = value.detach().cpu().numpy()
                if values.ndim == 1:
                    out[key] = tensor_file.Bf16(values)
                else:
                    out |= quantised.stored(key, values, (1, GROUP), MOST)
        return out


class Training:
    def __init__(self, session, model, arm, lesson):
        self.session, self.model, self.arm, self.lesson = session, model, arm, lesson
        last = model.g.num_hidden_layers - 1
        self.draft = DenseDraft(model, [min(i, last) for i in ARMS[arm]])
        self.optimizer = Optimizer(list(self.draft.weights.items()), RATE, plain_rate=PLAIN_RATE)
        self.generator = torch.Generator(device=session.device).manual_seed(21)
        self.closeness = torch.zeros((), device=session.device)
        self.step, self.seen, self.seconds, self.curve, self.latest = 0, 0, 0.0, [], []

    def learn(self, batch):
        tokens, answers = batch
        with torch.no_grad():
            wanted = self.model.dense(tokens).flatten(0, 1)
        h = self.draft(tokens)
        flat, own = h.detach().flatten(0, 1), self.draft.weights["norm"]
        picked, gradient = picked_places(answers, 8, self.generator), torch.zeros_like(flat)
        total = torch.zeros(2, device=flat.device)
        own.grad = torch.zeros_like(own)
        tail = self.model.base["model.norm.weight"], self.model.embedding
        for at in picked.split(min(CHUNK, len(picked))):
            x, share = flat[at].requires_grad_(), len(at) / len(picked)
            found = self.lesson(x, wanted[at], own, *tail, self.closeness, self.model.g.eps)
            parts = torch.autograd.grad(found[0] * share, (x, own))
            gradient[at] = parts[0]
            own.grad += parts[1]
            total += torch.stack(found).detach() * share
        h.backward(gradient.view_as(h))
        return total

    def go(self, text, until, total):
        """Trains until `until` seconds of its own clock, on a schedule of `total`."""
        options, began, compiled = self.session.options, time.time() - self.seconds, False
        while self.seconds < until and self.session.left() > 10:
            mark, progress = time.time(), self.seconds / total
            self.closeness.fill_(CLOSENESS * min(1, progress / RISE))
            rows = max(1, options.tokens // options.row)
            self.latest.append(self.learn(text.answers(rows, options.row, DRAFT_MIX)))
            self.optimizer.step(schedule(progress, self.step, warmup=40, flat=0.3))
            self.step, self.seen = self.step + 1, self.seen + rows * options.row
            if not compiled:
                self.session.synchronize()
                self.session.log("dense draft compiled", f"{time.time() - mark:.1f} s")
                began, compiled = began + time.time() - mark, True
            if self.step % 10 == 0:
                self.session.synchronize()
                self.seconds = time.time() - began
            if self.step % 100 == 0:
                mean = [round(x, 4) for x in torch.stack(self.latest).mean(0).tolist()]
                self.curve.append([self.step, self.seen, round(self.seconds, 1), *mean])
                self.session.log("dense draft", self.arm, self.curve[-1])
                self.latest = []
                if mean[0] != mean[0]:
                    raise RuntimeError("the loss is not a number")
                if self.step % 300 == 0:
                    self.write()

    def write(self):
        path = os.path.join(self.session.out, "dense_draft.safetensors")
        tensor_file.write(path, self.draft.stored())


@torch.no_grad()
def measure(training, text):
    model, g = training.model, training.model.g
    everything, found = torch.arange(g.vocab_size, device=training.session.device), {}

    def teacher(tokens):
        flat, norm = model.dense(tokens).flatten(0, 1), model.base["model.norm.weight"]
        return lambda at: final_logits(flat[at], norm, model.embedding, g.eps)

    def drafted(tokens):
        flat, norm = training.draft(tokens).flatten(0, 1), training.draft.weights["norm"]
        # A draft that reads the text itself says the same at every step of a chain.
        return lambda at: [final_logits(flat[at], norm, model.embedding, g.eps)] * 4

    options = training.session.options
    for split in ("test", "greedy"):
        call = text, split, teacher, drafted, everything, g.vocab_size
        found[split] = held_out.measure(*call, rows=options.tokens // options.row)
    return found


def run(session, seconds):
    options, g = session.options, session.g
    text = TextRows(options.data, session.work, session.device, g.vocab_size, seed=9)
    model = build(session, session.base, lora=False).requires_grad_(False)
    lesson = torch.compile(loss_of, dynamic=False) if session.compiled else loss_of
    trial, best = min(options.arm_seconds, seconds / 8), None
    tried = {}
    for arm in ARMS:
        training = Training(session, model, arm, lesson)
        training.go(text, trial, 8 * trial)
        found = measure(training, text)
        tried[arm] = {"steps": training.step, "answers": found}
        session.log("dense draft trial", arm, tried[arm])
        if best is None or found["test"]["overlap"][0] > best[0]:
            best = found["test"]["overlap"][0], training
    training = best[1]
    total = min(seconds - len(ARMS) * trial, session.left() - 40)
    training.go(text, total, total)
    training.write()
    figures = {"tried": tried, "arm": training.arm, "begin": ARMS[training.arm]}
    figures |= {"step": training.step, "tokens": training.seen, "seconds": training.seconds}
    figures |= {"curve": training.curve, "answers": measure(training, text)}
    session.note("dense_draft", figures)
    session.log("dense draft", figures["answers"])
