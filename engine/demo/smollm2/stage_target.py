"""Adapts the target: distils the dense model into its sparse form, the base frozen.

Two arms start from the same gates and see the same time: NSA parameters alone, and with LoRA on the
attention's matrices. Both are measured on held-out text before and after; LoRA ships only if it
lowers the mean loss at the far length by `WORTH` nats.
"""

import os
import time

import merge
import tensor_file
import torch

from optimizer import schedule
from sparse_model import LORA, SparseModel, divergence, routing_loss, token_losses
from target_model import Pieces, PlainPieces
from text_rows import TARGET_MIX, TextRows

RATE, ROUTING_SHARE, ROUTED = 1e-3, 0.05, 128
CHUNK = 4096
WORTH = 0.01
POSITIONS = (0, 1024, 2048, 4096, 8192)
CHECKPOINT_SECONDS = 30


class Teacher:
    """The compiled losses over chunks of rows, so that the logits are never held whole."""

    def __init__(self, session, model):
        wrap = (lambda f: torch.compile(f, dynamic=False)) if session.compiled else (lambda f: f)
        self.divergence, self.losses = wrap(divergence), wrap(token_losses)
        self.routing = wrap(routing_loss)
        self.tail = session.base["model.norm.weight"], model.embedding, session.g.eps

    def gradient(self, h, wanted):
        """(KL, agreement) over all rows and the KL's gradient at h."""
        flat, aim = h.detach().flatten(0, 1), wanted.flatten(0, 1)
        gradient, total = torch.empty_like(flat), 0
        for at in range(0, len(flat), CHUNK):
            x = flat[at : at + CHUNK].requires_grad_()
            loss, same = self.divergence(x, aim[at : at + CHUNK], *self.tail)
            share = len(x) / len(flat)
            (gradient[at : at + CHUNK],) = torch.autograd.grad(loss * share, x)
            total = total + torch.stack([loss.detach(), same]) * share
        return total, gradient.view_as(h)

    @torch.no_grad()
    def token_losses(self, h, tokens):
        """Losses of tokens 1 …, and the likeliest token of each place, [B, T − 1]."""
        flat = h.detach()[:, :-1].flatten(0, 1)
        following = tokens[:, 1:].flatten()
        size = CHUNK if len(flat) >= CHUNK else len(flat)
        losses, guesses = [], []
        for at in range(0, len(flat), size):
            at = min(at, len(flat) - size)  # every chunk has one shape: the last may overlap
            loss, guess = self.losses(flat[at : at + size], following[at : at + size], *self.tail)
            keep = min(size, len(flat) - sum(len(x) for x in losses))
            losses.append(loss[size - keep :])
            guesses.append(guess[size - keep :])
        shape = len(tokens), -1
        return torch.cat(losses).view(shape), torch.cat(guesses).view(shape)


def build(session, base, lora):
    pieces = Pieces() if session.compiled else PlainPieces()
    return SparseModel(session.g, base, pieces, lora)


def step(session, model, teacher, tokens, share, optimizer):
    """One step at `share` of the rate; without an optimizer only the gradients' norm."""
    wanted, g = model.dense(tokens), session.g
    length = tokens.shape[1]
    low = min(1024, length // 2)
    position = torch.randperm(length - low, device=tokens.device)[:ROUTED] + low
    figures = []

    def watch(i, parts, chosen):
        found = teacher.routing(parts["q"], parts["k"], parts["k_cmp"], position, g)
        figures.append(torch.stack(found))

    h, _ = model(tokens, watch=watch)
    routing = torch.stack(figures).mean(0)
    kl, gradient = teacher.gradient(h, wanted)
    torch.autograd.backward([h, ROUTING_SHARE * routing[0]], [gradient, None])
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if optimizer:
        for group in optimizer.param_groups:
            group["lr"] = RATE * group["scale"] * share
        optimizer.step()
    model.zero_grad(set_to_none=True)
    return torch.cat([kl, routing.detach(), norm[None]])


def optimizer_of(model, arm):
    groups = {1.0: [], 10.0: []}
    for name, value in model.weights.items():
        if arm == "lora" or not name.split(":")[1] in LORA:
            groups[10.0 if name.endswith("intra_block_pe") else 1.0].append(value)
    groups = [{"params": values, "scale": scale} for scale, values in groups.items()]
    return torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), weight_decay=0.0)


def measure(session, model, teacher, text):
    """{regime@length: {positions: [dense, sparse, agreement]}} on held-out text."""
    options, found = session.options, {}
    for length in (options.near, options.far):
        rows = max(1, options.tokens // length)
        edges = [x for x in POSITIONS if x < length] + [length]
        spans = [*zip(edges, edges[1:]), (0, length)]
        for regime in text.regimes():
            windows = text.held_out(regime, max(rows, options.held // length), length)
            sums = torch.zeros(3, length - 1, dtype=torch.double, device=session.device)
            count = len(windows) // rows * rows
            for at in range(0, count, rows):
                tokens = windows[at : at + rows]
                dense, best = teacher.token_losses(model.dense(tokens), tokens)
                sparse, guess = teacher.token_losses(model(tokens)[0], tokens)
                same = (best == guess).double()
                sums += torch.stack([x.double().sum(0) for x in (dense, sparse, same)])
            sums /= count
            found[f"{regime}@{length}"] = {
                f"{low}-{high}": [round(x, 4) for x in sums[:, low:high].mean(1).tolist()]
                for low, high in spans
            }
    return found


def summary(figures, length):
    """Mean dense and sparse loss over the regimes at a length."""
    rows = [list(x.values())[-1] for name, x in figures.items() if name.endswith(f"@{length}")]
    return [round(sum(row[i] for row in rows) / len(rows), 4) for i in range(3)]


def warm_up(session, model, teacher, text):
    """Compiles both shapes (near, far) and returns them; steps are halved until they fit."""
    options = session.options
    while True:
        shapes = [(max(1, options.tokens // x), x) for x in (options.near, options.far)]
        try:
            for shape in reversed(shapes):
                began = time.time()
                figures = step(session, model, teacher, text.batch(*shape, TARGET_MIX), 0.0, None)
                session.synchronize()
                waited = f"{time.time() - began:.1f} s"
                session.log("target compiled", shape, waited, session.memory())
                session.log("step 0", [round(x, 4) for x in figures.tolist()])
            return shapes
        except torch.OutOfMemoryError:
            options.tokens //= 2
            session.log("out of memory; tokens a step now", options.tokens)
            model.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()


def train_arm(session, seconds, arm):
    options, g = session.options, session.g
    if arm in session.record():
        return
    text = TextRows(options.data, session.work, session.device, g.vocab_size)
    torch.manual_seed(5)
    model = build(session, session.base, lora=True)
    teacher = Teacher(session, model)
    gate_rows = max(1, options.tokens // options.near)
    model.set_gates([text.batch(gate_rows, options.near, TARGET_MIX) for _ in range(2)])
    near, far = warm_up(session, model, teacher, text)
    if arm == "nsa":
        report(session, "zero_shot", measure(session, model, teacher, text))
    optimizer, began = optimizer_of(model, arm), time.time()
    kept, count, seen, curve, latest = session.load(f"{arm}.pt"), 0, 0, [], []
    if kept:
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        count, seen, began = kept["step"], kept["seen"], began - kept["seconds"]
    saved = time.time()
    while time.time() - began < seconds:
        progress = (time.time() - began) / seconds
        shape = far if progress > 0.75 else near
        share = schedule(progress, count, warmup=30, end=0.03)
        tokens = text.batch(*shape, TARGET_MIX)
        latest.append(step(session, model, teacher, tokens, share, optimizer))
        count, seen = count + 1, seen + tokens.numel()
        if count % 20 == 0:
            mean = [round(x, 5) for x in torch.stack(latest).mean(0).tolist()]
            curve.append([count, seen, round(time.time() - began, 1), shape[1], *mean])
            session.log(arm, curve[-1])
            latest = []
            if not all(x == x for x in mean):
                raise RuntimeError(f"{arm}: the loss is not a number")
        if time.time() - saved > CHECKPOINT_SECONDS:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            state |= {"step": count, "seen": seen, "seconds": time.time() - began}
            session.save(f"{arm}.pt", state)
            saved = time.time()
    with torch.no_grad():
        for value in model.weights.values():
            value.copy_(value.bfloat16().float())
    session.save(f"{arm}-weights.pt", {k: v.detach().bfloat16() for k, v in model.weights.items()})
    figures = measure(session, model, teacher, text)
    report(session, arm, {"steps": count, "tokens": seen, "curve": curve, "held_out": figures})


def report(session, name, figures):
    session.note(name, figures)
    held = figures.get("held_out", figures)
    for length in (session.options.near, session.options.far):
        session.log(name, f"at {length}: dense, sparse, agreement", summary(held, length))
    session.log(name, json_line(held))


def json_line(held):
    return {name: list(spans.values())[-1] for name, spans in held.items()}


def run_nsa(session, seconds):
    train_arm(session, seconds, "nsa")


def run_lora(session, seconds):
    train_arm(session, seconds, "lora")


def adapter_tensors(weights):
    """What ships of the target, under the loader's names."""
    out = {}
    for name, value in weights.items():
        layer, part, *factor = name.split(":")
        end = f".lora_{factor[0]}" if factor else ".weight" if part == "g_proj" else ""
        values = tensor_file.Bf16(value.float().cpu().numpy())
        out[f"model.layers.{layer}.self_attn.{part}{end}"] = values
    return out


def run_choose(session, seconds):
    """Keeps the arm that ships as target.pt; LoRA only if it earns it."""
    record, far = session.record(), session.options.far
    arm = "nsa"
    if "lora" in record:
        losses = [summary(record[name]["held_out"], far)[1] for name in ("nsa", "lora")]
        arm = "lora" if losses[0] - losses[1] >= WORTH else "nsa"
    session.note("chosen", arm)
    weights = session.load(f"{arm}-weights.pt")
    weights = {k: v for k, v in weights.items() if arm == "lora" or k.split(":")[1] not in LORA}
    session.save("target.pt", {"arm": arm, "weights": weights})
    path = os.path.join(session.out, "adapter.safetensors")
    tensor_file.write(path, adapter_tensors(weights), {"format": "pt"})
    session.log("chosen", arm, "parameters", sum(x.numel() for x in weights.values()))


def chosen_target(session):
    """The adapted model as it ships: NSA parameters, the merged matrices as merge.py rounds them."""
    kept = session.load("target.pt")
    base = dict(session.base)
    for i in range(session.g.num_hidden_layers):
        for name in LORA if kept["arm"] == "lora" else ():
            factors = (kept["weights"][f"{i}:{name}:{part}"] for part in "ab")
            key = f"model.layers.{i}.self_attn.{name}.weight"
            w, a, b = (x.float().cpu().numpy() for x in (base[key], *factors))
            base[key] = torch.from_numpy(merge.merged(w, a, b)).to(session.device, session.g.dtype)
    model = build(session, base, lora=False)
    with torch.no_grad():
        for name, value in model.weights.items():
            value.copy_(kept["weights"][name].float())
    return model.requires_grad_(False)
