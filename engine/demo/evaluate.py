"""Held-out figures of a trained pair: bits per byte, routing overlap, acceptance of chain and trees.

Teacher-forced: the chain is fed held-out text, and a draft counts while its argmax is the target's
argmax at the same place. Generated: the target continues held-out contexts greedily and the chain
is stepped along its own output as a real verifier would; looping samples are left out. Mean tokens
a step count the bonus token. Trees: best first by cumulative log-probability, root counted.
"""

import argparse
import dataclasses
import json

import torch
import torch.nn.functional as F

import tensor_file
from draft_model import Draft, DraftPieces
from draft_trees import grow_tree, tree_accepted
from export import write_json
from greedy_decode import Decoder
from target_model import Geometry, Pieces, Target
from text_data import KINDS, Batches
from train_shapes import DRAFT_LENGTH, LONG, SHORT, STEPS

REGIMES = ("chat", "plan", "prose", "code")
BUCKETS = {"1K": (512, 2048), "4K": (3072, 4608), "8K": (7168, 9216), "16K": (14336, 16384)}
CONTEXTS = {"1K": 1024, "4K": 4096, "8K": 8192, "16K": 16000}
EDGES = (0, 1024, 4096, 8192, 16384)
TREE_SIZES = (16, 32, 64)
WINDOWS, GENERATED, ROOTS = 8, 192, (0, 32, 64, 96, 128, 160)
CPU_TAIL = 1024  # on a CPU the draft sees this much: more than its window before the first root
LN2 = 0.6931471805599453


def loops(text, longest=80, least=64):
    """True if a run of `least` or more bytes repeats a period of at most `longest`, three times over."""
    for period in range(1, longest + 1):
        run = 0
        for place in range(period, len(text)):
            run = run + 1 if text[place] == text[place - period] else 0
            if run + period >= max(least, 3 * period if period > 16 else 4 * period):
                return True
    return False


def leading(match):
    """match [S, …, T'] -> how many drafts in a row are right for the chain rooted at each place.

    match[j] at place p judges draft j + 1 of the chain rooted at p − j.
    """
    steps, length = match.shape[0], match.shape[-1]
    alive = torch.ones_like(match[0][..., : length - steps + 1])
    total = torch.zeros_like(alive, dtype=torch.long)
    for j in range(steps):
        alive = alive & match[j][..., j : length - steps + 1 + j]
        total += alive
    return total


@torch.no_grad()
def bits_and_overlap(target, held):
    """Bits per byte by kind, place and variant, and the overlap of adjacent queries' blocks."""
    layers = target.g.num_hidden_layers
    variants = {
        "nsa": {},
        "full": {"full": True},
        "FRFR": {"schedule": "FR" * (layers // 2)},
        "FRRR": {"schedule": "FRRR" * (layers // 4)},
    }
    bits, overlap = {}, {}
    for kind in KINDS:
        tokens = held.windows(kind, WINDOWS, LONG)
        for name, choice in variants.items():
            shared = torch.zeros(layers, device=tokens.device)

            def watch(layer, parts, chosen):
                if name == "nsa":
                    same = (chosen[:, 1024:-1] & chosen[:, 1025:]).sum(-1).float()
                    shared[layer] += same.mean() / target.g.sel_count

            losses = []
            for rows in tokens.split(4):
                with torch.enable_grad():
                    h, _ = target(rows[:, :-1], watch=watch, **choice)
                    logits = target.logits(h).detach()
                losses.append(
                    F.cross_entropy(logits.transpose(1, 2), rows[:, 1:], reduction="none")
                )
            losses = torch.cat(losses) / LN2
            spans = zip(EDGES[:-1], EDGES[1:])
            bits.setdefault(kind, {})[name] = {
                **{
                    f"{low}-{high}": round(losses[:, low:high].mean().item(), 4)
                    for low, high in spans
                },
                "all": round(losses.mean().item(), 4),
            }
            if name == "nsa":
                overlap[kind] = [round(x / (WINDOWS / 4), 3) for x in shared.tolist()]
    return bits, overlap


def look(target, draft, tokens):
    """tokens [batch, length] of a compiled shape -> target logits, captured streams."""
    with torch.enable_grad():
        h, captured = target(tokens, capture=draft.layer_ids)
        logits = target.logits(h)
    return logits.detach(), [x.detach() for x in captured]


def guesses(draft, embedding, tokens, starts, captured, logits):
    """The draft's argmax [STEPS, rows, DRAFT_LENGTH] along the given rows."""
    with torch.enable_grad():
        steps = draft.unroll(tokens, starts, captured, embedding, logits, STEPS)
        return torch.stack([guess for _, _, guess in steps])


@torch.no_grad()
def teacher_forced(target, draft, held):
    """Match by unrolled step, and mean tokens a step of the chain, by regime and bucket."""
    embedding = target.weights["model:embed_tokens"].detach()
    parts, found = LONG // DRAFT_LENGTH, {}
    for kind in KINDS:
        match, right = [], []
        for tokens in held.windows(kind, WINDOWS, LONG)[:, :-1].split(4):
            logits, captured = look(target, draft, tokens)
            rows = tokens.reshape(-1, DRAFT_LENGTH)
            starts = torch.arange(parts, device=rows.device).repeat(len(tokens)) * DRAFT_LENGTH
            cut = [x.reshape(len(rows), DRAFT_LENGTH, -1) for x in captured]
            guess = guesses(
                draft, embedding, rows, starts, cut, logits.reshape(len(rows), DRAFT_LENGTH, -1)
            )
            match.append(guess.view(STEPS, len(tokens), LONG) == logits.argmax(-1))
            right.append((logits.argmax(-1)[:, :-1] == tokens[:, 1:]).float().mean())
        match = torch.cat(match, 1)
        # The first rows of a piece see a cut window: they do not count.
        whole = (torch.arange(LONG, device=match.device) % DRAFT_LENGTH >= 520) | (
            torch.arange(LONG, device=match.device) < DRAFT_LENGTH
        )
        count = leading(match)
        entry = {
            "target_top1": round(torch.stack(right).mean().item(), 4),
            "match_by_step": [],
            "tokens_per_step": {},
        }
        entry["match_by_step"] = [round(row[:, whole].float().mean().item(), 4) for row in match]
        for bucket, (low, high) in BUCKETS.items():
            inside = torch.arange(low, min(high, count.shape[1]), device=match.device)
            inside = inside[whole[inside]]
            entry["tokens_per_step"][bucket] = round(1 + count[:, inside].float().mean().item(), 3)
        found[kind] = entry
    return found


def contexts_of(held, count, length):
    """Held-out contexts, `count` a regime: tokens [regimes · count, length]."""
    return torch.cat([held.windows(kind, count, length)[:, :-1] for kind in REGIMES])


def chunked(tokens):
    """Pads sequences to a compiled length, 65,536 tokens at once; on a CPU one by one, to a tile."""
    if tokens.is_cuda:
        wide = SHORT if tokens.shape[1] <= SHORT else LONG
        return F.pad(tokens, (0, wide - tokens.shape[1])).split(65536 // wide)
    return F.pad(tokens, (0, -tokens.shape[1] % 128)).split(1)


def step_through(count, low, high):
    """Real steps of one sample: the next root is the accepted length plus one further on."""
    place, steps = low, 0
    row = count.tolist()
    while place < high:
        place += row[place] + 1
        steps += 1
    return place - low, steps


def rate(runs):
    """Mean tokens a step over the runs (tokens, steps)."""
    return round(sum(tokens for tokens, _ in runs) / sum(steps for _, steps in runs), 3)


@torch.no_grad()
def generated(target, draft, held, per_regime, buckets):
    """Greedy continuations of held-out contexts: chain by real steps, chain and trees by root."""
    embedding, found = target.weights["model:embed_tokens"].detach(), {}
    for bucket in buckets:
        context = CONTEXTS[bucket]
        prompts = contexts_of(held, per_regime, context)
        tail = DRAFT_LENGTH if prompts.is_cuda else CPU_TAIL
        low, length = max(0, context + GENERATED - tail), context + GENERATED
        decoder = Decoder(target, len(prompts), length, draft.layer_ids, low)
        start = 0
        for rows in chunked(F.pad(prompts, (0, GENERATED))):
            decoder.prefill(rows, start, context)
            start += len(rows)
        tokens = torch.cat([prompts, decoder.greedy(GENERATED)], 1)
        captured = [F.pad(x, (0, 0, 0, tail - x.shape[1])) for x in decoder.captured]
        del decoder
        rows = F.pad(tokens[:, low:], (0, tail - (length - low)))
        guess = []
        for start in range(0, len(rows), 16):
            part = slice(start, start + 16)
            starts = torch.full((len(rows[part]),), low, device=rows.device)
            unused = torch.zeros(*rows[part].shape, target.g.vocab_size, device=rows.device)
            guess.append(
                guesses(draft, embedding, rows[part], starts, [x[part] for x in captured], unused)
            )
        first = context - 1 - low
        following = rows.roll(-1, 1)
        match = (torch.cat(guess, 1) == following)[:, :, first : first + GENERATED]
        count = leading(match)
        looping = torch.tensor([loops(row[context:].tolist()) for row in tokens])
        trees = tree_figures(draft, embedding, rows, captured, first, low, count)
        found[bucket] = {}
        for number, regime in enumerate(REGIMES):
            own = range(number * per_regime, (number + 1) * per_regime)
            kept = [i for i in own if not looping[i]]
            runs = [step_through(count[i], 0, count.shape[1]) for i in kept]
            entry = {"samples": len(own), "looping": len(own) - len(kept)}
            everyone = [step_through(count[i], 0, count.shape[1]) for i in own]
            entry["chain_with_looping"] = rate(everyone)
            if kept:
                entry["chain"] = rate(runs)
                for name, places in (("real_root", [0]), ("roots", range(len(ROOTS)))):
                    chain = torch.stack([count[kept, ROOTS[j]] for j in places]).float()
                    entry[name] = {"chain": round(1 + chain.mean().item(), 3)}
                    for size in TREE_SIZES:
                        depth = torch.stack([trees[size][j][kept] for j in places]).float()
                        entry[name][f"tree_{size}"] = round(1 + depth.mean().item(), 3)
                kept_roots = torch.stack([count[kept, place] for place in ROOTS])
                entry["accepted_by_depth"] = [
                    round((kept_roots >= depth).float().mean().item(), 3)
                    for depth in range(1, STEPS + 1)
                ]
            entry["sample"] = bytes(min(x, 255) for x in tokens[own[0], context:].tolist()).decode(
                "latin-1"
            )
            found[bucket][regime] = entry
    return found


def tree_figures(draft, embedding, rows, captured, first, low, count):
    """{size: [accepted depth of every sample, one tensor a root]} against the greedy output."""
    found = {size: [] for size in TREE_SIZES}
    for offset in ROOTS:
        place = first + offset
        levels = grow_tree(draft, embedding, rows, captured, place, low, max(TREE_SIZES))
        wanted = rows[:, place + 1 : place + 1 + STEPS]
        for size in TREE_SIZES:
            found[size].append(tree_accepted(levels, wanted, size).cpu())
    return found


def figures(target, draft, held, per_regime):
    """Yields (name, figures) for the record, cheapest first."""
    bits, overlap = bits_and_overlap(target, held)
    yield "bits_per_byte", bits
    yield "adjacent_overlap", overlap
    yield "teacher_forced", teacher_forced(target, draft, held)
    yield "generated", generated(target, draft, held, per_regime, CONTEXTS)


def main():
    """Adds the generated figures of an exported pair to a record, bucket by bucket."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--record", required=True)
    parser.add_argument("--contexts", type=int, default=8, help="contexts a regime")
    parser.add_argument("--buckets", default="1K,4K,8K,16K")
    parser.add_argument("--device", default="cpu", help="cpu (float32) or cuda (bf16, compiled)")
    options = parser.parse_args()
    gpu = options.device != "cpu"
    torch._dynamo.config.cache_size_limit = 64
    config, tensors = tensor_file.read_model(options.model)
    draft_config, draft_tensors = tensor_file.read_model(options.model + "/draft")
    ids = tuple(draft_config["eagle_config"]["eagle_aux_hidden_state_layer_ids"])
    target = Target(geometry_of(config, gpu), pieces=Pieces() if gpu else None)
    draft = Draft(geometry_of(draft_config, gpu), ids, target, DraftPieces(compiled=gpu))
    for model, weights in ((target, tensors), (draft, draft_tensors)):
        model.load(weights)
        model.requires_grad_(False).to(options.device)
    held = Batches(options.data, options.device, split="test")
    for bucket in options.buckets.split(","):
        found = generated(target, draft, held, options.contexts, [bucket])
        with open(options.record) as file:
            record = json.load(file)
        record.setdefault("generated", {}).update(found)
        write_json(options.record, record)
        print(bucket, json.dumps(found), flush=True)


def geometry_of(config, gpu):
    names = [field.name for field in dataclasses.fields(Geometry)]
    shape = {name: config[name] for name in names if name in config}
    return Geometry(**shape, dtype=torch.bfloat16 if gpu else torch.float32)


if __name__ == "__main__":
    main()
