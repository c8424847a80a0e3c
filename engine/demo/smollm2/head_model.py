"""The EAGLE-3 head in PyTorch: one layer over captured streams, proposing the commonest tokens.

Step 1 runs every place with the target's own streams. In step j the entry at p takes the head's own
output of step j − 1 at p − 1; it sees step-1 entries up to p − j + 1 and, for i = 2 … j, the step-i
entry at p − j + i: what a chain of drafts sees. The streams' channels differ in size by orders of
magnitude, so fc learns on streams divided by each channel's deviation; `exported` folds that
division into fc, which then reads the streams as they are.
"""

import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from draft_model import WINDOW, entry, leaving_feature, shifted
from held_out import HOT
from target_model import TILE, linear, rms_norm, rotary_table

INTERMEDIATE = 2048
HEAD_RANK = 128
ARMS = ("frozen", "low_rank", "full")  # what of the output rows is trained


def merge(out, lse, q, k, v):
    """Adds one entry a row (k, v [B, G, T, d]) to attention that has the weight sum exp(lse)."""
    share = q.shape[1] // k.shape[1]
    score = (q.float().unflatten(1, (-1, share)) * k.float()[:, :, None]).sum(-1)
    score = score.flatten(1, 2) * q.shape[-1] ** -0.5
    total = torch.logaddexp(lse, score)
    old, new = torch.exp(lse - total), torch.exp(score - total)
    wide = v.float().repeat_interleave(share, 1)
    return out * old[..., None] + wide * new[..., None], total


def feature_of(captured, inverse, fc, dtype):
    """Captured streams -> features, moved on by one: row p holds that of p − 1."""
    x = (torch.cat(captured, -1) * inverse).to(dtype)
    return F.pad(linear(x, fc).float(), (0, 0, 1, 0))[:, :-1]


def apart(logits, wanted, closeness):
    """Of each row: (1 − closeness) · cross-entropy to `wanted` + closeness · 2 · total variation at
    temperature 0.7, which is the share of sampled drafts that the target refuses."""
    cross = -(wanted * torch.log_softmax(logits, -1)).sum(-1)
    hot = torch.exp2(torch.log2(wanted) / HOT)
    hot = hot / hot.sum(-1, keepdim=True)
    distance = (hot - torch.softmax(logits / HOT, -1)).abs().sum(-1)
    return (1 - closeness) * cross + closeness * distance


def head_loss(h, norm, rows, wanted, choice, closeness, eps):
    """The mean of `apart` over the proposed tokens, and the match.

    choice is the target's likeliest token as a draft id, −1 if it is not proposed: left out.
    """
    logits = linear(rms_norm(h, norm, eps).to(rows.dtype), rows).float()
    valid = (choice >= 0).float()
    loss = apart(logits, wanted.float(), closeness)
    match = ((logits.argmax(-1) == choice).float() * valid).mean()
    return (loss * valid).sum() / valid.sum().clamp(min=1), match


def plain_attention(q, k, v, block_mask, enable_gqa, return_lse):
    """flex_attention's result on a CPU; `block_mask` is the boolean mask [T, T]."""
    share = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(share, 1).transpose(-1, -2) * q.shape[-1] ** -0.5
    scores = scores.masked_fill(~block_mask, -1e30)
    seen = block_mask.any(-1, keepdim=True)
    out = torch.softmax(scores, -1) @ v.repeat_interleave(share, 1) * seen
    return out, torch.logsumexp(scores, -1).clamp(min=-1e4)


class Head(torch.nn.Module):
    def __init__(self, g, base, draft_tokens, inverse, arm, compiled):
        """draft_tokens [n] ascending target ids; inverse [3·hidden], 1 / deviation by channel."""
        super().__init__()
        self.g, self.arm, self.compiled, self.masks = g, arm, compiled, {}
        device = inverse.device
        hidden, wide = g.hidden_size, 2 * g.hidden_size
        heads, groups = g.num_attention_heads * g.head_dim, g.num_key_value_heads * g.head_dim
        inter = INTERMEDIATE if hidden == 576 else g.intermediate_size
        self.weights, generator = torch.nn.ParameterDict(), torch.Generator().manual_seed(7)

        def keep(name, value):
            # A copy: the norm starts as the target's, which must stay what it is.
            value = value.detach().to(device, torch.float32, copy=True)
            self.weights[name] = torch.nn.Parameter(value)

        def matrix(name, rows, columns, scale=1.0):
            keep(name, torch.randn(rows, columns, generator=generator) * scale * columns**-0.5)

        matrix("fc", hidden, 3 * hidden)
        with torch.no_grad():
            self.weights["fc"][:, 2 * hidden :] += torch.eye(hidden, device=device)
        for norm in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
            keep(f"midlayer:{norm}", torch.ones(hidden))
        matrix("midlayer:self_attn:q_proj", heads, wide)
        matrix("midlayer:self_attn:k_proj", groups, wide)
        matrix("midlayer:self_attn:v_proj", groups, wide)
        matrix("midlayer:self_attn:o_proj", hidden, heads, 0.2)
        matrix("midlayer:mlp:gate_proj", inter, hidden)
        matrix("midlayer:mlp:up_proj", inter, hidden)
        matrix("midlayer:mlp:down_proj", hidden, inter, 0.2)
        keep("norm", base["model.norm.weight"])
        self.embedding, self.inverse = base["model.embed_tokens.weight"], inverse
        self.draft_tokens = draft_tokens
        self.rows = self.embedding[draft_tokens]
        self.draft_id = torch.full((g.vocab_size,), -1, dtype=torch.long, device=device)
        self.draft_id[draft_tokens] = torch.arange(len(draft_tokens), device=device)
        if arm == "low_rank":
            keep("lm_head:a", torch.randn(HEAD_RANK, hidden, generator=generator) * hidden**-0.5)
            keep("lm_head:b", torch.zeros(len(draft_tokens), HEAD_RANK))
        if arm == "full":
            keep("lm_head", self.rows)
        wrap = (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
        self.entry, self.merge = wrap(entry), wrap(merge)
        self.leaving_feature = wrap(leaving_feature)
        self.feature_of, self.loss = wrap(feature_of), wrap(head_loss)
        self.attention = wrap(flex_attention) if compiled else plain_attention

    def output_rows(self):
        """[n, hidden], the matrix of the logits."""
        if self.arm == "full":
            return self.weights["lm_head"].to(self.rows.dtype)
        if self.arm == "frozen":
            return self.rows
        change = self.weights["lm_head:b"] @ self.weights["lm_head:a"]
        return (self.rows.float() + change).to(self.rows.dtype)

    def layer(self):
        return {k.replace(":", "."): v for k, v in self.weights.items() if "lm_head" not in k}

    def mask(self, length, step):
        """Step-1 entries that step `step` sees: (q − window, q − step + 1]; row 0 holds none."""
        if (length, step) not in self.masks:
            device = self.inverse.device
            # A tensor, not a number: one compiled kernel then serves every step.
            behind = torch.tensor(step - 1, device=device)

            def seen(b, h, q, k):
                return (k <= q - behind) & (k > q - WINDOW) & (k > 0)

            if self.compiled:
                found = create_block_mask(
                    seen, None, None, length, length, device=device, BLOCK_SIZE=TILE
                )
            else:
                at = torch.arange(length, device=device)
                found = seen(0, 0, at[:, None], at[None])
            self.masks[length, step] = found
        return self.masks[length, step]

    def unroll(self, tokens, captured, steps):
        """Yields h [B, T, hidden] after steps 1 … `steps` on the given text."""
        w, g = self.layer(), self.g
        length = tokens.shape[1]
        at = torch.arange(length, device=tokens.device)
        table = rotary_table(at, g.head_dim, g.theta)
        embedded = F.embedding(tokens, self.embedding)
        feature = self.feature_of(list(captured), self.inverse, w["fc"], g.dtype)
        keys, values = [], []
        for step in range(1, steps + 1):
            q, k, v = self.entry(embedded, feature, w, table, g)
            keys.append(k)
            values.append(v)
            out, lse = self.attention(
                q,
                keys[0],
                values[0],
                block_mask=self.mask(length, step),
                enable_gqa=True,
                return_lse=True,
            )
            out, lse = out.float(), lse.float().clamp(min=-1e4)
            for i in range(1, step):
                by = step - 1 - i
                out, lse = self.merge(out, lse, q, shifted(keys[i], by), shifted(values[i], by))
            h = self.leaving_feature(out, feature, w, g)
            yield h
            feature = F.pad(h, (0, 0, 1, 0))[:, :-1]

    def exported(self):
        """{file name: float32 array}; fc reads the streams as they are."""
        out = {f"{k}.weight": v.detach().float().cpu().numpy() for k, v in self.layer().items()}
        out["fc.weight"] = (self.weights["fc"].detach() * self.inverse).cpu().numpy()
        for name, value in self.weights.items():
            if "lm_head" in name:
                key = name.replace("lm_head:", "lm_head.lora_") + ("" if ":" in name else ".weight")
                out[key] = value.detach().float().cpu().numpy()
        return out
