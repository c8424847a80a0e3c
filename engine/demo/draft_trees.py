"""Grows draft trees, many roots at once, and walks them with a greedy target's tokens."""

import torch
import torch.nn.functional as F

from draft_model import WINDOW, entry, leave
from target_model import rotary_table

DEPTH, WIDTH = 7, 4


def gather_nodes(x, index):
    """x [B, G, n, d], index [B, m] -> [B, G, m, d]."""
    wide = index[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3])
    return x.gather(2, wide)


def run_nodes(draft, embedded, feature, position, level, committed, keys, values, lineage):
    """One level's entries: attention over committed entries and each node's own ancestors."""
    g, w = draft.g, draft.named()
    count = embedded.shape[1]
    table = rotary_table(
        torch.tensor([position + level], device=embedded.device), g.head_dim, g.theta
    )
    q, k, v = entry(embedded, feature, w, table, g)
    keys.append(k)
    values.append(v)
    share = q.shape[1] // k.shape[1]
    scale = g.head_dim**-0.5
    wide = q.unflatten(1, (-1, share)).float()
    old_k, old_v = (x.float() for x in committed)
    main = torch.einsum("bgrnd,bgkd->bgrnk", wide, old_k) * scale
    slot = torch.arange(old_k.shape[2], device=q.device)
    main = main.masked_fill(slot < level, -1e30)
    own_k = [gather_nodes(x, index).float() for x, index in zip(keys, lineage)]
    own_v = [gather_nodes(x, index).float() for x, index in zip(values, lineage)]
    own = torch.stack([(wide * x[:, :, None]).sum(-1) * scale for x in own_k], -1)
    weights = torch.softmax(torch.cat([main, own], -1), -1)
    split = old_k.shape[2]
    mixed = torch.einsum("bgrnk,bgkd->bgrnd", weights[..., :split], old_v)
    for i, x in enumerate(own_v):
        mixed = mixed + weights[..., split + i, None] * x[:, :, None]
    return leave(mixed.flatten(1, 2).view(len(q), -1, count, g.head_dim), feature, w, g)


def grow_tree(draft, embedding, rows, captured, place, low, budget):
    """Levels 1 … DEPTH as (tokens, parents, scores) [B, n] for roots at `place` of each row.

    Each level keeps the budget − 1 likeliest nodes, a superset of the best-first tree's.
    """
    g, w = draft.g, draft.named()
    span = slice(place - WINDOW + 1, place + 1)
    features = draft.features([x[:, place - WINDOW : place + 1] for x in captured])[:, 1:]
    embedded = F.embedding(rows[:, span], embedding)
    position = low + place
    at = torch.arange(position - WINDOW + 1, position + 1, device=rows.device)
    _, k, v = entry(embedded, features, w, rotary_table(at, g.head_dim, g.theta), g)
    committed = k[:, :, :-1], v[:, :, :-1]
    tokens, feature = rows[:, place : place + 1], features[:, -1:]
    score = torch.zeros(tokens.shape, device=rows.device)
    lineage, keys, values, levels = [torch.zeros_like(tokens)], [], [], []
    for level in range(DEPTH):
        h, logits = run_nodes(
            draft,
            F.embedding(tokens, embedding),
            feature,
            position,
            level,
            committed,
            keys,
            values,
            lineage,
        )
        best, choice = torch.log_softmax(logits, -1).topk(WIDTH, -1)
        total = (score[..., None] + best).flatten(1)
        score, kept = total.topk(min(budget - 1, total.shape[1]), -1)
        parent = kept // WIDTH
        tokens = choice.flatten(1).gather(1, kept)
        feature = h.gather(1, parent[..., None].expand(-1, -1, h.shape[-1]))
        own = torch.arange(tokens.shape[1], device=rows.device).expand_as(tokens)
        lineage = [index.gather(1, parent) for index in lineage] + [own]
        levels.append((tokens, parent, score))
    return levels


def tree_accepted(levels, wanted, size):
    """Accepted depth [B] of the `size`-node tree (root counted) when the target emits `wanted`."""
    scores = torch.cat([score for _, _, score in levels], 1)
    least = scores.topk(size - 1, -1).values[:, -1:]
    at = torch.zeros(len(wanted), dtype=torch.long, device=wanted.device)
    alive = torch.ones_like(at, dtype=torch.bool)
    depth = torch.zeros_like(at)
    for level, (tokens, parent, score) in enumerate(levels):
        hit = (tokens == wanted[:, level : level + 1]) & (parent == at[:, None]) & (score >= least)
        alive = alive & hit.any(1)
        at = hit.long().argmax(1)
        depth += alive
    return depth
