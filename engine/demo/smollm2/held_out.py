"""How well does a draft say what the target would? On held-out answers, greedy and at 0.7.

Of every place: is the draft's likeliest token the target's (`best`), or the one that the text goes
on with (`text`); how likely is it for the target (`chance`); how much do both distributions have in
common (`overlap`, 1 − total variation); do both draw the same token with the same Gumbel noise
(`coupled`). The last three at temperature 0.7.
"""

import torch
import torch.nn.functional as F

HOT = 0.7
NAMES = ("best", "text", "chance", "overlap", "coupled")
CHUNK = 2048
ROWS = 64


def agreement(p_logits, q_logits, proposed, following, noise):
    """[n, 5] of NAMES; q_logits are of the tokens `proposed`."""
    p, q = (torch.softmax(x / HOT, -1) for x in (p_logits, q_logits))
    guess = proposed[q_logits.argmax(-1)]
    drawn = (p_logits / HOT + noise).argmax(-1)
    drafted = proposed[(q_logits / HOT + noise[:, proposed]).argmax(-1)]
    return torch.stack(
        [
            (guess == p_logits.argmax(-1)).float(),
            (guess == following).float(),
            p.gather(1, guess[:, None])[:, 0],
            torch.minimum(p[:, proposed], q).sum(-1),
            (drawn == drafted).float(),
        ],
        -1,
    )


def looping(tokens, longest=80, least=64):
    """bool [B, T]: the places of runs that repeat themselves, as answers.py's `loops` defines."""
    found, length = torch.zeros_like(tokens, dtype=torch.bool), tokens.shape[1]
    for period in range(1, longest + 1):
        span = max(least, period * (3 if period > 16 else 4))
        if span > length:
            continue
        same = F.pad(tokens[:, period:] == tokens[:, :-period], (1, 0)).int().cumsum(1)
        run = span - period
        full = same[:, run:] - same[:, :-run] == run  # a run begins here
        begun = F.pad(full, (span, span - 1)).int().cumsum(1)
        found |= begun[:, span:] > begun[:, :length]
    return found


def chain_length(hits, counted):
    """Mean tokens a step, the target's own counted, of chains that begin anywhere in `counted`.

    hits [steps, B, T]: step j of a chain from place c is hits[j, c + j]; all of it must be counted.
    """
    steps, _, length = hits.shape
    room = length - steps + 1
    taken = torch.stack([hits[j, :, j : j + room] for j in range(steps)]).cumprod(0).sum(0)
    valid = torch.stack([counted[:, j : j + room] for j in range(steps)]).all(0)
    return 1 + (taken * valid).sum().item() / max(1, valid.sum().item())


def decoded_length(hits, counted):
    """Tokens a step as decoding has it: a chain begins where the last one ended, so an easy run is
    few steps and a hard place one each. Below `chain_length`, which weighs every place alike."""
    steps, rows, length = hits.shape
    run = torch.zeros(rows, length, dtype=torch.long, device=hits.device)
    still = torch.ones(rows, length, dtype=torch.bool, device=hits.device)
    for j in range(steps):
        hit = F.pad((hits[j] > 0) & counted, (0, steps))[:, j : j + length]
        still &= hit
        run += still
    place, everyone = torch.zeros(rows, dtype=torch.long), torch.arange(rows)
    run, counted, taken, count = run.cpu(), counted.cpu(), 0, 0
    while (place < length).any():
        at = place.clamp(max=length - 1)
        begins = counted[everyone, at] & (place < length)
        emitted = 1 + run[everyone, at] * begins
        taken, count = taken + int((emitted * begins).sum()), count + int(begins.sum())
        place = place + emitted
    return taken / max(1, count)


@torch.no_grad()
def measure(text, split, p_logits_of, q_logits_of, proposed, vocab, rows=ROWS):
    """p_logits_of(tokens) and q_logits_of(tokens) give functions of flat places: the logits there,
    of q a list, one a step. Returns the means of NAMES a step, `oracle`, and the chains."""
    tokens, counted = text.held_out_answers(split, rows)
    counted[:, :16] = False
    following = tokens.roll(-1, 1).flatten()
    p_logits, q_logits = p_logits_of(tokens), q_logits_of(tokens)
    generator = torch.Generator(device=tokens.device).manual_seed(4)
    found, oracle = [], []
    for at in torch.arange(tokens.numel(), device=tokens.device).split(CHUNK):
        logits = p_logits(at)
        noise = torch.empty_like(logits).exponential_(generator=generator)
        noise = -torch.log(noise + 1e-20)
        oracle.append(torch.softmax(logits / HOT, -1).max(-1).values)
        every = [agreement(logits, q, proposed, following[at], noise) for q in q_logits(at)]
        found.append(torch.stack(every))
    found = torch.cat(found, 1).view(-1, *tokens.shape, len(NAMES))
    means = found[:, counted].mean(1)
    out = {name: [round(x, 4) for x in means[:, i].tolist()] for i, name in enumerate(NAMES)}
    out["oracle"] = round(torch.cat(oracle).view(tokens.shape)[counted].mean().item(), 4)
    out["places"] = int(counted.sum())
    for name in ("best", "text", "coupled"):
        hits = found[..., NAMES.index(name)]
        out[f"chain_{name}"] = round(chain_length(hits, counted), 4)
        out[f"chain_{name}_4"] = round(chain_length(hits[:4], counted), 4)
        out[f"decoded_{name}"] = round(decoded_length(hits, counted), 4)
        out[f"decoded_{name}_4"] = round(decoded_length(hits[:4], counted), 4)
    return out
