"""Muon for the matrices (orthogonalised momentum, batched by shape), Adam for the rest."""

import torch


def orthogonalise(x, steps=5):
    """Newton–Schulz towards the nearest semi-orthogonal matrices; x [n, rows, columns]."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = x.bfloat16()
    flipped = x.shape[1] > x.shape[2]
    x = x.mT if flipped else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if flipped else x).float()


class Optimizer:
    """Muon's update is scaled to Adam's usual size (0.2 · sqrt(larger side)), so one rate may serve."""

    def __init__(self, named, rate, weight_decay=0.05, momentum=0.95, plain_rate=None):
        self.rate, self.decay, self.momentum, self.count = rate, weight_decay, momentum, 0
        self.plain_rate = plain_rate or rate
        plain = ("embed_tokens", "lm_head", "compress_key", "compress_value", "intra_block_pe")
        self.groups, rest = {}, []
        for name, value in named:
            if value.ndim == 2 and not name.endswith(plain):
                self.groups.setdefault(tuple(value.shape), []).append(value)
            else:
                rest.append(value)
        self.buffers = {
            shape: torch.zeros(len(v), *shape, device=v[0].device)
            for shape, v in self.groups.items()
        }
        self.adam = torch.optim.AdamW(
            rest, lr=rate, betas=(0.9, 0.98), weight_decay=0.0, fused=rest[0].is_cuda
        )

    def parameters(self):
        return [value for group in self.adam.param_groups for value in group["params"]] + [
            value for values in self.groups.values() for value in values
        ]

    @torch.no_grad()
    def step(self, share):
        """One update at `share` of the rate; clears the gradients. Returns their norm."""
        every = self.parameters()
        norm = torch.nn.utils.clip_grad_norm_(every, 1.0, foreach=True)
        self.adam.param_groups[0]["lr"] = self.plain_rate * share
        self.adam.step()
        for shape, values in self.groups.items():
            gradient = torch.stack([value.grad for value in values])
            buffer = self.buffers[shape]
            buffer.lerp_(gradient, 1 - self.momentum)
            update = orthogonalise(gradient.lerp(buffer, self.momentum))
            size = self.rate * share * 0.2 * max(shape) ** 0.5
            torch._foreach_mul_(values, 1 - self.rate * share * self.decay)
            torch._foreach_add_(values, list((-size * update).unbind()))
        for value in every:
            value.grad = None
        return norm


def schedule(progress, step, warmup=60, flat=0.4, end=0.02):
    """Share of the rate: warm-up by steps, constant, then linear to `end`."""
    rise = min(1.0, (step + 1) / warmup)
    fall = 1.0 if progress < flat else 1.0 - (1.0 - end) * (progress - flat) / (1.0 - flat)
    return rise * max(fall, end)
