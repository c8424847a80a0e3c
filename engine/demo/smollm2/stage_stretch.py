"""Does the pair hold at 16,384 tokens, twice its context, with the rotary angles stretched?

Nothing is trained: held-out loss of the dense model and of the sparse target by position and regime,
for each kind of stretch that Hugging Face's `rope_scaling` names, and for none.
"""

import math

import torch

from stage_target import Teacher, build, chosen_target
from text_rows import TextRows

LENGTH, FACTOR = 16384, 2.0
KINDS = ("none", "linear", "yarn", "llama3", "theta")
POSITIONS = (0, 4096, 8192, 16384)


def frequencies(kind, g, original, factor=FACTOR):
    """(angle a position of each rotary pair, factor of cosine and sine)."""
    half = g.head_dim // 2
    exponent = torch.arange(half, dtype=torch.float64) / half
    plain = g.theta**-exponent
    if kind == "none":
        return plain, 1.0
    if kind == "linear":
        return plain / factor, 1.0
    if kind == "theta":  # a larger rope_theta: the slowest pair is stretched whole
        return (g.theta * factor ** (g.head_dim / (g.head_dim - 2))) ** -exponent, 1.0
    if kind == "llama3":  # low_freq_factor 1, high_freq_factor 4
        wave = 2 * math.pi / plain
        smooth = ((original / wave - 1) / 3).clamp(0, 1)
        return (1 - smooth) * plain / factor + smooth * plain, 1.0
    # yarn: beta_fast 32, beta_slow 1

    def pair_of(turns):
        return g.head_dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(g.theta))

    low, high = max(math.floor(pair_of(32)), 0), min(math.ceil(pair_of(1)), g.head_dim - 1)
    ramp = ((torch.arange(half, dtype=torch.float64) - low) / max(high - low, 1e-3)).clamp(0, 1)
    return plain / factor * ramp + plain * (1 - ramp), 0.1 * math.log(factor) + 1


def stretched_table(kind, length, g, original, device):
    angle, size = frequencies(kind, g, original)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * angle
    return (angle.cos() * size).float().to(device), (angle.sin() * size).float().to(device)


@torch.no_grad()
def run(session, seconds):
    options, g = session.options, session.g
    length = options.stretched
    original, text = length // 2, TextRows(options.data, session.work, session.device, g.vocab_size)
    models = {"dense": build(session, session.base, lora=False), "sparse": chosen_target(session)}
    teacher = Teacher(session, models["dense"])
    found, device = {}, models["dense"].embedding.device
    edges = [x * length // LENGTH for x in POSITIONS]
    for kind in KINDS:
        table, figures = stretched_table(kind, length, g, original, device), {}
        for model in models.values():
            model.masks[length, device] = table, model.tables(length, device)[1]
        for regime in text.regimes():
            windows = text.held_out(regime, max(1, options.held // length), length)
            sums = torch.zeros(2, length - 1, dtype=torch.double, device=device)
            for tokens in windows.split(1):
                streams = models["dense"].dense(tokens), models["sparse"](tokens)[0]
                for i, h in enumerate(streams):
                    sums[i] += teacher.token_losses(h, tokens)[0].double().sum(0)
            sums /= len(windows)
            figures[regime] = {
                f"{low}-{high}": [round(x, 4) for x in sums[:, low:high].mean(1).tolist()]
                for low, high in zip(edges, edges[1:])
            }
        found[kind] = figures
        session.note("stretch", found)
        session.log("stretch", kind, figures)
        if session.left() < 8:
            break
