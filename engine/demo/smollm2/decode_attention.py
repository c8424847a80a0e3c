"""Attention of one query position a row over a cache, in Triton: each key and value read once.

A program takes one row and KV head, and walks its cache up to `place`; the query heads that share
the KV head are the rows of one small matrix. Scores and sums in f32.
"""

import torch
import triton
import triton.language as tl

QUERIES, KEYS = 16, 64  # of a tile; a matrix unit takes no fewer than 16 rows


@triton.jit
def decode_kernel(
    q, k, v, out, place, scale, share, rows, D: tl.constexpr, M: tl.constexpr, N: tl.constexpr
):
    """q, out [z, share, D]; k, v [z, rows, D]; keys 0 … place are seen."""
    z = tl.program_id(0).to(tl.int64)
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    real = m[:, None] < share
    at = z * share * D + m[:, None] * D + d[None, :]
    query = tl.load(q + at, mask=real, other=0.0)
    count = tl.load(place).to(tl.int32) + 1
    best = tl.full([M], -1e30, tl.float32)
    total = tl.zeros([M], tl.float32)
    mixed = tl.zeros([M, D], tl.float32)
    base = z * rows * D
    for start in range(0, count, N):
        seen = (start + n) < count
        place_of = base + (start + n[:, None]) * D + d[None, :]
        keys = tl.load(k + place_of, mask=seen[:, None], other=0.0)
        values = tl.load(v + place_of, mask=seen[:, None], other=0.0)
        scores = tl.dot(query, tl.trans(keys)) * scale
        scores = tl.where(seen[None, :], scores, -1e30)
        top = tl.maximum(best, tl.max(scores, 1))
        weight = tl.exp(scores - top[:, None])
        shrink = tl.exp(best - top)
        total = total * shrink + tl.sum(weight, 1)
        mixed = mixed * shrink[:, None] + tl.dot(weight.to(values.dtype), values)
        best = top
    tl.store(out + at, (mixed / total[:, None]).to(query.dtype), mask=real)


def decode_attention(q, k, v, place):
    """q [z, share, d], k and v [z, rows, d], place [1] long -> [z, share, d]."""
    out = torch.empty_like(q)
    decode_kernel[(len(q),)](
        q, k, v, out, place, q.shape[2] ** -0.5, q.shape[1], k.shape[1],
        D=q.shape[2], M=QUERIES, N=KEYS, num_warps=4, num_stages=3,
    )  # fmt: skip
    return out
