"""The target in PyTorch, made for training: exact NSA routing per query, all three branches.

The arithmetic is README.md's; the form is chosen for speed: KV heads are folded into the batch
(z = batch × KV head), each piece is compiled by itself, and the selected branch runs flex_attention
over the union of 128 × 128 tiles with each query's own choice as the mask. reference.py is the
slow, independent check.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

TILE = 128


@dataclass
class Geometry:
    hidden_size: int = 320
    intermediate_size: int = 896
    num_hidden_layers: int = 8
    num_attention_heads: int = 8
    num_key_value_heads: int = 2
    head_dim: int = 64
    vocab_size: int = 272
    eps: float = 1e-5
    theta: float = 500000.0
    cmp_block: int = 32
    cmp_stride: int = 16
    sel_block: int = 64
    sel_count: int = 16
    window: int = 512
    dtype: torch.dtype = torch.bfloat16


def round_to_bf16(module):
    """Makes the weights those of the exported file."""
    with torch.no_grad():
        for value in module.parameters():
            value.copy_(value.bfloat16().float())


def rms_norm(x, weight, eps):
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def linear(x, weight):
    return x @ weight.to(x.dtype).T


def rotary_table(positions, width, theta):
    half = width // 2
    exponent = torch.arange(half, device=positions.device, dtype=torch.float64) / half
    angle = positions.double()[:, None] * theta**-exponent
    return angle.cos().float(), angle.sin().float()


def rotate(x, table):
    """x [..., T, d] in any dtype; the table is [T, d/2] or broadcasts to it."""
    cos, sin = table
    low, high = x.float().chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1).to(x.dtype)


def window_mask(length, window, device):
    def near(b, h, q, k):
        return (k <= q) & (k > q - window)

    return create_block_mask(near, None, None, length, length, device=device, BLOCK_SIZE=TILE)


def block_mask_of(chosen):
    """chosen [z, T, blocks] bool -> the BlockMask of the selected branch (causal within)."""
    z, length, blocks = chosen.shape
    tiles = length // TILE
    union = chosen.view(z, tiles, TILE, tiles, blocks // tiles).any(4).any(2)[:, None]
    order = torch.argsort(union.to(torch.int8), dim=-1, descending=True, stable=True)
    width = length // blocks

    def own(b, h, q, k):
        return chosen[b, q, k // width] & (k <= q)

    return BlockMask.from_kv_blocks(
        union.sum(-1).int(),
        order.int(),
        BLOCK_SIZE=TILE,
        mask_mod=own,
        seq_lengths=(length, length),
    )


def compress(x, weights, embedding, g):
    """x [B,G,T,d] -> [B,G,Lc,d]: each block of 32 is two chunks of 16."""
    batch, groups, length, width = x.shape
    chunks = x.view(batch, groups, length // g.cmp_stride, g.cmp_stride, width)
    halves = weights.to(x.dtype).view(groups, g.cmp_block // g.cmp_stride, g.cmp_stride)
    parts = torch.einsum("bgcjd,ghj->hbgcd", chunks, halves)
    out = parts[0, :, :, :-1] + parts[1, :, :, 1:]
    if embedding is not None:
        out = out + torch.einsum("gj,gjd->gd", weights, embedding).to(x.dtype)[None, :, None]
    return out


def project(h, w, table, g):
    """Queries, keys, values, compressed keys and values, gates; KV heads folded into z."""
    batch, length, _ = h.shape
    heads, groups, width = g.num_attention_heads, g.num_key_value_heads, g.head_dim
    x = rms_norm(h, w["input_layernorm.weight"], g.eps).to(g.dtype)
    q = linear(x, w["self_attn.q_proj.weight"]).view(batch, length, heads, width).transpose(1, 2)
    k = linear(x, w["self_attn.k_proj.weight"]).view(batch, length, groups, width).transpose(1, 2)
    v = linear(x, w["self_attn.v_proj.weight"]).view(batch, length, groups, width).transpose(1, 2)
    k, v = k.contiguous(), v.contiguous()
    share, z = heads // groups, batch * groups
    parts = {
        "q": rotate(q, table).reshape(z, share, length, width),
        "k": rotate(k, table).reshape(z, 1, length, width),
        "v": v.reshape(z, 1, length, width),
    }
    if "self_attn.g_proj.weight" in w:
        gates = torch.sigmoid(linear(x, w["self_attn.g_proj.weight"]).float())
        gates = gates.view(batch, length, groups, share, 3).permute(0, 2, 3, 1, 4)
        parts["gates"] = gates.reshape(z, share, length, 3)
        k_cmp = compress(k, w["self_attn.compress_key"], w["self_attn.intra_block_pe"], g)
        at = tuple(side[: -g.cmp_stride : g.cmp_stride] for side in table)
        parts["k_cmp"] = rotate(k_cmp, at).reshape(z, -1, width)
        parts["v_cmp"] = compress(v, w["self_attn.compress_value"], None, g).reshape(z, -1, width)
        parts["k_raw"] = k.reshape(z, length, width)
    return parts


def block_importance(weights, g):
    """weights [..., Lc] summed over heads, Lc = 4·blocks − 1 -> [..., blocks] (1, 2, 2, 2, 1)."""
    padded = F.pad(weights, (1, 1))
    body = padded[..., :-1].unflatten(-1, (-1, g.sel_block // g.cmp_stride))
    return body[..., 0] + 2 * body[..., 1:].sum(-1) + padded[..., 4::4]


def compressed_attention(q, k_cmp, v_cmp, g):
    """The compressed branch's output and the importance [z, T, blocks] of the same weights."""
    length, count = q.shape[2], k_cmp.shape[1]
    scores = (q @ k_cmp[:, None].transpose(-1, -2)).float() * g.head_dim**-0.5
    last = torch.arange(count, device=q.device) * g.cmp_stride + g.cmp_block - 1
    seen = last <= torch.arange(length, device=q.device)[:, None]
    weights = torch.softmax(scores.masked_fill(~seen, -1e30), -1) * seen
    out = weights.to(q.dtype) @ v_cmp[:, None]
    return out, block_importance(weights.detach().sum(1), g)


def choose_blocks(importance, position, g, init_blocks=1, local_blocks=2):
    """importance [z, T, blocks], position [T] -> chosen, bool: forced, then by value, then index."""
    blocks = importance.shape[2]
    j = torch.arange(blocks, device=importance.device)
    own = position[:, None] // g.sel_block
    forced = (j < init_blocks) | (j > own - local_blocks)
    # Non-negative floats order as their bits do; the low digits make the lower index win.
    key = importance.float().contiguous().view(torch.int32).long() * 65536 + (65535 - j)
    key = torch.where(forced, 1 << 60, key)
    key = torch.where(j > own, -1, key)
    least = key.topk(min(g.sel_count, blocks), dim=-1, sorted=True).values[..., -1:]
    return (key >= least) & (key >= 0)


def finish(h, parts, branches, w, g):
    """Gated sum (or the one dense branch), output projection, MLP."""
    batch, length, _ = h.shape
    if len(branches) == 3:
        gates = parts
        mixed = sum(gates[..., i : i + 1] * branch.float() for i, branch in enumerate(branches))
    else:
        mixed = branches[0]
    heads, width = g.num_attention_heads, g.head_dim
    mixed = mixed.to(g.dtype).reshape(batch, heads, length, width).transpose(1, 2)
    h = h + linear(mixed.reshape(batch, length, heads * width), w["self_attn.o_proj.weight"])
    x = rms_norm(h, w["post_attention_layernorm.weight"], g.eps).to(g.dtype)
    gated = F.silu(linear(x, w["mlp.gate_proj.weight"])) * linear(x, w["mlp.up_proj.weight"])
    return h + linear(gated, w["mlp.down_proj.weight"])


def causal_attention(q, k, v):
    """Dense attention, of a teacher; never the form that holds the matrix of weights."""
    wide = [x.expand(-1, q.shape[1], -1, -1) for x in (k, v)]
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]):
        return F.scaled_dot_product_attention(q, *wide, is_causal=True)


class Pieces:
    """The functions above, compiled for a GPU."""

    def __init__(self):
        def wrap(function):
            return torch.compile(function, dynamic=False)

        self.project, self.finish = wrap(project), wrap(finish)
        self.compressed_attention = wrap(compressed_attention)
        self.choose_blocks = torch.no_grad()(wrap(choose_blocks))
        self.flex_selected, self.flex_recent = wrap(flex_attention), wrap(flex_attention)

    def window_mask(self, length, window, device):
        return window_mask(length, window, device)

    def selected(self, q, k, v, chosen):
        return self.flex_selected(q, k, v, block_mask=block_mask_of(chosen), enable_gqa=True)

    def recent(self, q, k, v, near):
        return self.flex_recent(q, k, v, block_mask=near, enable_gqa=True)


class PlainPieces:
    """The same without compilation or gradients, in strips of queries: for a CPU."""

    strip = 512
    project, finish = staticmethod(project), staticmethod(finish)
    compressed_attention = staticmethod(compressed_attention)
    choose_blocks = staticmethod(choose_blocks)

    def window_mask(self, length, window, device):
        return window

    def strips(self, q, k, v, first_key, seen):
        """Attention strip by strip; seen(rows, keys) gives the mask of positions."""
        out, at = torch.empty_like(q), torch.arange(q.shape[2], device=q.device)
        for low in range(0, q.shape[2], self.strip):
            high = min(low + self.strip, q.shape[2])
            start = first_key(low)
            wide = [x[:, :, start:high].expand(-1, q.shape[1], -1, -1) for x in (k, v)]
            mask = seen(at[low:high], at[start:high])
            out[:, :, low:high] = F.scaled_dot_product_attention(
                q[:, :, low:high], *wide, attn_mask=mask
            )
        return out

    def selected(self, q, k, v, chosen):
        width = q.shape[2] // chosen.shape[2]

        def own(rows, keys):
            blocks = chosen[:, rows[0] : rows[-1] + 1, : keys[-1] // width + 1]
            wide = blocks.repeat_interleave(width, -1)[..., : len(keys)]
            return (wide & (keys <= rows[:, None]))[:, None]

        return self.strips(q, k, v, lambda low: 0, own)

    def recent(self, q, k, v, window):
        def near(rows, keys):
            return (keys <= rows[:, None]) & (keys > rows[:, None] - window)

        return self.strips(q, k, v, lambda low: max(0, low - window + 1), near)


class Target(torch.nn.Module):
    def __init__(self, g, pieces=None):
        super().__init__()
        self.g = g
        self.pieces = pieces or PlainPieces()
        self.masks = {}
        hidden, width = g.hidden_size, g.head_dim
        heads, groups = g.num_attention_heads, g.num_key_value_heads
        self.weights = torch.nn.ParameterDict()

        def matrix(name, rows, columns, scale=1.0):
            self.weights[name] = torch.nn.Parameter(
                torch.randn(rows, columns) * scale * columns**-0.5
            )

        def fill(name, value, *shape):
            self.weights[name] = torch.nn.Parameter(torch.full(shape, value))

        self.weights["model:embed_tokens"] = torch.nn.Parameter(
            torch.randn(g.vocab_size, hidden) * 0.05
        )
        fill("model:norm", 1.0, hidden)
        for i in range(g.num_hidden_layers):
            fill(f"{i}:input_layernorm", 1.0, hidden)
            matrix(f"{i}:self_attn:q_proj", heads * width, hidden)
            matrix(f"{i}:self_attn:k_proj", groups * width, hidden)
            matrix(f"{i}:self_attn:v_proj", groups * width, hidden)
            matrix(f"{i}:self_attn:o_proj", hidden, heads * width, 0.2)
            matrix(f"{i}:self_attn:g_proj", 3 * heads, hidden, 0.3)
            fill(f"{i}:self_attn:compress_key", 1 / g.cmp_block, groups, g.cmp_block)
            fill(f"{i}:self_attn:compress_value", 1 / g.cmp_block, groups, g.cmp_block)
            fill(f"{i}:self_attn:intra_block_pe", 0.0, groups, g.cmp_block, width)
            fill(f"{i}:post_attention_layernorm", 1.0, hidden)
            matrix(f"{i}:mlp:gate_proj", g.intermediate_size, hidden)
            matrix(f"{i}:mlp:up_proj", g.intermediate_size, hidden)
            matrix(f"{i}:mlp:down_proj", hidden, g.intermediate_size, 0.2)

    def layer_weights(self, i):
        """The layer's weights under the names that the exported files use."""
        found, bare = {}, ("compress_key", "compress_value", "intra_block_pe")
        for name, value in self.weights.items():
            if name.startswith(f"{i}:"):
                tail = name.split(":", 1)[1].replace(":", ".")
                found[tail if tail.endswith(bare) else tail + ".weight"] = value
        return found

    def named(self):
        """(file name, parameter) pairs."""
        yield "model.embed_tokens.weight", self.weights["model:embed_tokens"]
        yield "model.norm.weight", self.weights["model:norm"]
        for i in range(self.g.num_hidden_layers):
            for name, value in self.layer_weights(i).items():
                yield f"model.layers.{i}.{name}", value

    def exported(self):
        return {name: value.detach().float().cpu().numpy() for name, value in self.named()}

    def load(self, tensors):
        """Takes the weights of an exported folder, {file name: array}."""
        with torch.no_grad():
            for name, value in self.named():
                value.copy_(torch.from_numpy(tensors[name].copy()))

    def tables(self, length, device):
        if (length, device) not in self.masks:
            table = rotary_table(torch.arange(length, device=device), self.g.head_dim, self.g.theta)
            near = self.pieces.window_mask(length, self.g.window, device)
            self.masks[length, device] = table, near
        return self.masks[length, device]

    def attend(self, h, w, table, near, chosen, full):
        """One layer's attention and MLP; returns h, its parts and the chosen blocks."""
        g, p = self.g, self.pieces
        parts = p.project(h, w, table, g)
        q, k, v = parts["q"], parts["k"], parts["v"]
        compressed, importance = p.compressed_attention(q, parts["k_cmp"], parts["v_cmp"], g)
        if full:
            chosen = torch.ones_like(importance, dtype=torch.bool)
        elif chosen is None:
            position = torch.arange(importance.shape[1], device=h.device)
            chosen = p.choose_blocks(importance, position, g)
        selected, recent = p.selected(q, k, v, chosen), p.recent(q, k, v, near)
        return p.finish(h, parts["gates"], (compressed, selected, recent), w, g), parts, chosen

    def forward(self, tokens, capture=(), schedule=None, full=False, watch=None):
        """Returns the residual stream leaving the last layer, and the streams entering `capture`.

        schedule: one letter a layer, R inherits the newest F layer's blocks. full: every block is
        selected. watch(layer, parts, chosen) is called after each layer.
        """
        table, near = self.tables(tokens.shape[1], tokens.device)
        h = F.embedding(tokens, self.weights["model:embed_tokens"])
        captured, chosen = {}, None
        for i in range(self.g.num_hidden_layers):
            captured[i] = h
            reuse = chosen if schedule and schedule[i] == "R" else None
            h, parts, chosen = self.attend(h, self.layer_weights(i), table, near, reuse, full)
            if watch:
                watch(i, parts, chosen)
        captured[self.g.num_hidden_layers] = h
        return h, [captured[j] for j in capture]

    def logits(self, h):
        x = rms_norm(h, self.weights["model:norm"], self.g.eps).to(self.g.dtype)
        return linear(x, self.weights["model:embed_tokens"]).float()
