"""The EAGLE-3-style draft in PyTorch: one decoder layer over captured target states, unrolled.

Step 1 runs every position with the target's true features. In step j the entry at p is fed the
draft's own feature of step j − 1 at p − 1; it sees step-1 entries up to p − j + 1 (the committed
ones) and, for i = 2 … j, the step-i entry at p − j + i: exactly what a chain sees when it drafts.
"""

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from target_model import TILE, linear, rms_norm, rotary_table, rotate

WINDOW = 512


def entry(embedded, feature, w, table, g):
    """q, k, v of entries: embedded and feature [B, T, hidden]."""
    batch, length, _ = feature.shape
    x = torch.cat(
        [
            rms_norm(embedded, w["midlayer.input_layernorm"], g.eps),
            rms_norm(feature, w["midlayer.hidden_norm"], g.eps),
        ],
        -1,
    ).to(g.dtype)

    def heads(name):
        return (
            linear(x, w[f"midlayer.self_attn.{name}_proj"])
            .view(batch, length, -1, g.head_dim)
            .transpose(1, 2)
        )

    return rotate(heads("q"), table), rotate(heads("k"), table), heads("v").contiguous()


def leaving_feature(mixed, feature, w, g):
    """The layer's output, which is the next feature; mixed [B, H, T, d]."""
    batch, _, length, _ = mixed.shape
    mixed = mixed.to(g.dtype).transpose(1, 2).reshape(batch, length, -1)
    h = feature + linear(mixed, w["midlayer.self_attn.o_proj"])
    x = rms_norm(h, w["midlayer.post_attention_layernorm"], g.eps).to(g.dtype)
    gated = F.silu(linear(x, w["midlayer.mlp.gate_proj"])) * linear(x, w["midlayer.mlp.up_proj"])
    return h + linear(gated, w["midlayer.mlp.down_proj"])


def leave(mixed, feature, w, g):
    """The layer's output feature and the logits; mixed [B, H, T, d]."""
    h = leaving_feature(mixed, feature, w, g)
    x = rms_norm(h, w["norm"], g.eps).to(g.dtype)
    return h, linear(x, w["lm_head"]).float()


def shifted(x, by):
    """x [B, G, T, d]: row p becomes row p − by."""
    return F.pad(x, (0, 0, by, 0))[:, :, : x.shape[2]] if by else x


def join(main, lse, q, keys, values):
    """Adds the chain's own entries (keys[i], values[i] at their query's row) to the main part."""
    share = q.shape[1] // keys[0].shape[1]
    wide_q = q.float().unflatten(1, (-1, share))
    scores = [lse] + [
        ((wide_q * k.float()[:, :, None]).sum(-1) * q.shape[-1] ** -0.5).flatten(1, 2) for k in keys
    ]
    weights = torch.softmax(torch.stack(scores), 0)
    out = weights[0][..., None] * main.float()
    for weight, v in zip(weights[1:], values):
        out = out + weight[..., None] * v.float().repeat_interleave(share, 1)
    return out


def soft_cross_entropy(logits, target_logits, valid):
    """Mean over valid rows of −Σ P log Q, and the draft's own choice of token."""
    wanted = torch.softmax(target_logits, -1)
    loss = -(wanted * torch.log_softmax(logits, -1)).sum(-1)
    return (loss * valid).sum() / valid.sum(), logits.argmax(-1)


class DraftPieces:
    def __init__(self, compiled):
        wrap = (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
        self.entry, self.leave, self.join = wrap(entry), wrap(leave), wrap(join)
        self.loss, self.attention = wrap(soft_cross_entropy), wrap(flex_attention)


class Draft(torch.nn.Module):
    def __init__(self, g, layer_ids, target, pieces=None):
        super().__init__()
        self.g, self.layer_ids, self.masks = g, layer_ids, {}
        self.pieces = pieces or DraftPieces(compiled=False)
        hidden, wide = g.hidden_size, 2 * g.hidden_size
        heads, groups = g.num_attention_heads * g.head_dim, g.num_key_value_heads * g.head_dim
        self.weights = torch.nn.ParameterDict()

        def matrix(name, rows, columns, scale=1.0):
            self.weights[name] = torch.nn.Parameter(
                torch.randn(rows, columns) * scale * columns**-0.5
            )

        matrix("fc", hidden, 3 * hidden)
        for norm in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
            self.weights[f"midlayer:{norm}"] = torch.nn.Parameter(torch.ones(hidden))
        matrix("midlayer:self_attn:q_proj", heads, wide)
        matrix("midlayer:self_attn:k_proj", groups, wide)
        matrix("midlayer:self_attn:v_proj", groups, wide)
        matrix("midlayer:self_attn:o_proj", hidden, heads, 0.2)
        matrix("midlayer:mlp:gate_proj", g.intermediate_size, hidden)
        matrix("midlayer:mlp:up_proj", g.intermediate_size, hidden)
        matrix("midlayer:mlp:down_proj", hidden, g.intermediate_size, 0.2)
        self.weights["norm"] = torch.nn.Parameter(torch.ones(hidden))
        head = target.weights["model:embed_tokens"] * target.weights["model:norm"]
        self.weights["lm_head"] = torch.nn.Parameter(head.detach().clone())

    def named(self):
        return {name.replace(":", "."): value for name, value in self.weights.items()}

    def exported(self):
        return {f"{k}.weight": v.detach().float().cpu().numpy() for k, v in self.named().items()}

    def load(self, tensors):
        """Takes the weights of an exported draft folder, {file name: array}."""
        with torch.no_grad():
            for name, value in self.named().items():
                value.copy_(torch.from_numpy(tensors[f"{name}.weight"].copy()))

    def mask(self, length, step, device):
        """Step-1 entries that step `step` sees: (q − window, q − step + 1]; row 0 holds none."""
        if (length, step) not in self.masks:

            def seen(b, h, q, k):
                return (k <= q - step + 1) & (k > q - WINDOW) & (k > 0)

            self.masks[length, step] = create_block_mask(
                seen, None, None, length, length, device=device, BLOCK_SIZE=TILE
            )
        return self.masks[length, step]

    def features(self, captured):
        """Captured streams -> true features, moved on by one: row p holds g of p − 1."""
        g = linear(torch.cat(captured, -1).to(self.g.dtype), self.weights["fc"]).float()
        return F.pad(g, (0, 0, 1, 0))[:, :-1]

    def unroll(self, tokens, starts, captured, embedding, target_logits, steps, skip=0):
        """Yields (step, loss, guess [B, T]) for steps 1 … `steps`, on the given text.

        Rows are pieces of longer sequences, row r beginning at position starts[r]. The loss leaves
        out the first `skip` rows of a piece that does not begin its sequence: their window is cut.
        """
        w, p = self.named(), self.pieces
        length = tokens.shape[1]
        place = torch.arange(length, device=tokens.device)
        position = starts[:, None] + place
        cos, sin = rotary_table(position.flatten(), self.g.head_dim, self.g.theta)
        table = tuple(side.view(len(starts), 1, length, -1) for side in (cos, sin))
        embedded = F.embedding(tokens, embedding)
        feature = self.features(captured)
        keys, values = [], []
        for step in range(1, steps + 1):
            q, k, v = p.entry(embedded, feature, w, table, self.g)
            keys.append(k)
            values.append(v)
            main, lse = p.attention(
                q,
                keys[0],
                values[0],
                block_mask=self.mask(length, step, tokens.device),
                enable_gqa=True,
                return_lse=True,
            )
            if step > 1:
                own = [shifted(x, step - i) for i, x in enumerate(keys[1:], 2)]
                own_values = [shifted(x, step - i) for i, x in enumerate(values[1:], 2)]
                main = p.join(main, lse.clamp(min=-1e4), q, own, own_values)
            h, logits = p.leave(main, feature, w, self.g)
            valid = (place >= step) & ((place >= skip) | (starts == 0)[:, None])
            loss, guess = p.loss(logits, target_logits, valid.float())
            yield step, loss, guess
            feature = F.pad(h, (0, 0, 1, 0))[:, :-1]
