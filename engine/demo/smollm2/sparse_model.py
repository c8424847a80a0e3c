"""SmolLM2 as an NSA target in PyTorch: frozen weights, NSA parameters, LoRA if asked for.

The arithmetic and its pieces are ../target_model.py's. `dense` is the unchanged model, the teacher.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import tensor_file  # noqa: E402
from target_model import Geometry, Target, block_importance, causal_attention  # noqa: E402
from target_model import linear, rms_norm  # noqa: E402

RANK = 32
LORA = ("q_proj", "k_proj", "v_proj", "o_proj")
GATE_LOGITS = (-3.5, 3.5, -3.5)  # of the compressed, selected and window branches at the start
CAPTURE = (3, 16, 30)


def smollm2(device):
    return Geometry(576, 1536, 30, 9, 3, 64, 49152, 1e-5, 1e5, dtype=compute_type(device))


def tiny(device):
    """The same code in seconds on a CPU: random weights."""
    g = Geometry(96, 160, 3, 3, 1, 32, 2048, 1e-5, 1e5, dtype=compute_type(device))
    g.sel_count, g.window = 4, 96
    return g


def compute_type(device):
    return torch.float32 if device == "cpu" else torch.bfloat16


def capture_layers(g):
    return CAPTURE if g.num_hidden_layers == 30 else (1, 2, 3)


def matrices(g):
    heads, groups = g.num_attention_heads * g.head_dim, g.num_key_value_heads * g.head_dim
    hidden, inter = g.hidden_size, g.intermediate_size
    return {
        "self_attn.q_proj": (heads, hidden),
        "self_attn.k_proj": (groups, hidden),
        "self_attn.v_proj": (groups, hidden),
        "self_attn.o_proj": (hidden, heads),
        "mlp.gate_proj": (inter, hidden),
        "mlp.up_proj": (inter, hidden),
        "mlp.down_proj": (hidden, inter),
    }


def base_weights(g, folder, device):
    """{file name: tensor}: matrices in the compute type, norms in f32. Random without a folder."""
    if folder:
        read = tensor_file.read(os.path.join(folder, "model.safetensors"))
        found = {name: torch.from_numpy(values.copy()) for name, values in read.items()}
    else:
        generator = torch.Generator().manual_seed(0)

        def random(rows, columns, scale):
            return torch.randn(rows, columns, generator=generator) * scale

        found = {"model.embed_tokens.weight": random(g.vocab_size, g.hidden_size, 0.05)}
        found["model.norm.weight"] = torch.ones(g.hidden_size)
        for i in range(g.num_hidden_layers):
            for norm in ("input_layernorm", "post_attention_layernorm"):
                found[f"model.layers.{i}.{norm}.weight"] = torch.ones(g.hidden_size)
            for name, (rows, columns) in matrices(g).items():
                found[f"model.layers.{i}.{name}.weight"] = random(rows, columns, columns**-0.5)
    return {k: v.to(device, g.dtype if v.ndim == 2 else torch.float32) for k, v in found.items()}


class SparseModel(Target):
    """`weights` holds what is trained, under "layer:part"; `base` what is frozen."""

    def __init__(self, g, base, pieces, lora):
        torch.nn.Module.__init__(self)
        self.g, self.pieces, self.masks = g, pieces, {}
        self.base, self.lora = base, lora
        self.embedding = base["model.embed_tokens.weight"]
        device = self.embedding.device
        self.weights = torch.nn.ParameterDict()
        groups, block, width = g.num_key_value_heads, g.cmp_block, g.head_dim

        def keep(name, value):
            self.weights[name] = torch.nn.Parameter(value.to(device))

        for i in range(g.num_hidden_layers):
            keep(f"{i}:g_proj", torch.zeros(3 * g.num_attention_heads, g.hidden_size))
            keep(f"{i}:compress_key", torch.full((groups, block), 1 / block))
            keep(f"{i}:compress_value", torch.full((groups, block), 1 / block))
            keep(f"{i}:intra_block_pe", torch.zeros(groups, block, width))
            for name in LORA if lora else ():
                rows, columns = matrices(g)[f"self_attn.{name}"]
                keep(f"{i}:{name}:a", torch.randn(RANK, columns) * columns**-0.5)
                keep(f"{i}:{name}:b", torch.zeros(rows, RANK))

    def dense_weights(self, i):
        prefix = f"model.layers.{i}."
        names = ["input_layernorm", "post_attention_layernorm", *matrices(self.g)]
        return {f"{name}.weight": self.base[f"{prefix}{name}.weight"] for name in names}

    def layer_weights(self, i):
        w = self.dense_weights(i)
        for name in LORA if self.lora else ():
            a, b = self.weights[f"{i}:{name}:a"], self.weights[f"{i}:{name}:b"]
            w[f"self_attn.{name}.weight"] = w[f"self_attn.{name}.weight"].float() + b @ a
        w["self_attn.g_proj.weight"] = self.weights[f"{i}:g_proj"]
        for name in ("compress_key", "compress_value", "intra_block_pe"):
            w[f"self_attn.{name}"] = self.weights[f"{i}:{name}"]
        return w

    def forward(self, tokens, capture=(), watch=None):
        """The stream leaving the last layer, and the streams entering `capture`."""
        table, near = self.tables(tokens.shape[1], tokens.device)
        h, captured = F.embedding(tokens, self.embedding).float(), {}
        for i in range(self.g.num_hidden_layers):
            captured[i] = h
            h, parts, chosen = self.attend(h, self.layer_weights(i), table, near, None, False)
            if watch:
                watch(i, parts, chosen)
        captured[self.g.num_hidden_layers] = h
        return h, [captured[j] for j in capture]

    def attend(self, h, w, table, near, chosen, full):
        """As Target.attend; where a query may choose every block there is, nothing is chosen."""
        g, p = self.g, self.pieces
        if h.shape[1] > g.sel_count * g.sel_block:
            return super().attend(h, w, table, near, chosen, full)
        parts = p.project(h, w, table, g)
        q, k, v = parts["q"], parts["k"], parts["v"]
        compressed, _ = p.compressed_attention(q, parts["k_cmp"], parts["v_cmp"], g)
        branches = compressed, causal_attention(q, k, v), p.recent(q, k, v, near)
        return p.finish(h, parts["gates"], branches, w, g), parts, None

    @torch.no_grad()
    def dense(self, tokens, watch=None, layers=None):
        """The stream leaving the last layer of the unchanged model; watch(layer, normed input)."""
        table, _ = self.tables(tokens.shape[1], tokens.device)
        h, p, g = F.embedding(tokens, self.embedding).float(), self.pieces, self.g
        for i in range(g.num_hidden_layers):
            w = self.dense_weights(i)
            if watch:
                watch(i, rms_norm(h, w["input_layernorm.weight"], g.eps))
            parts = p.project(h, w, table, g)
            mixed = causal_attention(parts["q"], parts["k"], parts["v"])
            h = p.finish(h, None, (mixed,), w, g)
        return h

    def logits(self, h):
        return final_logits(h, self.base["model.norm.weight"], self.embedding, self.g.eps)

    @torch.no_grad()
    def set_gates(self, batches):
        """Gates have no bias: rows w with w·x about constant over tokens, by ridge regression."""
        g = self.g
        moment = torch.zeros(g.num_hidden_layers, g.hidden_size, g.hidden_size, dtype=torch.double)
        mean = torch.zeros(g.num_hidden_layers, g.hidden_size, dtype=torch.double)
        moment, mean = moment.to(self.embedding.device), mean.to(self.embedding.device)
        count = sum(x.numel() for x in batches)

        def add(i, x):
            x = x.reshape(-1, g.hidden_size).double()
            moment[i] += x.T @ x / count
            mean[i] += x.sum(0) / count

        for tokens in batches:
            self.dense(tokens, add)
        ridge = moment.diagonal(dim1=1, dim2=2).mean(1) * 1e-3
        moment += torch.eye(g.hidden_size, device=moment.device) * ridge[:, None, None]
        rows = torch.linalg.solve(moment, mean[..., None])[..., 0]
        rows = rows / (rows * mean).sum(1, keepdim=True)
        logits = torch.tensor(GATE_LOGITS, device=rows.device).repeat(g.num_attention_heads)
        for i in range(g.num_hidden_layers):
            self.weights[f"{i}:g_proj"].copy_(logits[:, None] * rows[i].float())


def final_logits(h, norm, embedding, eps):
    return linear(rms_norm(h, norm, eps).to(embedding.dtype), embedding).float()


def divergence(h, wanted, norm, embedding, eps):
    """Mean KL(dense ‖ sparse) over rows, and how often both choose the same token."""
    log_p = torch.log_softmax(final_logits(wanted, norm, embedding, eps), -1)
    log_q = torch.log_softmax(final_logits(h, norm, embedding, eps), -1)
    same = (log_p.argmax(-1) == log_q.argmax(-1)).float().mean()
    return (log_p.exp() * (log_p - log_q)).sum(-1).mean(), same


def token_losses(h, next_tokens, norm, embedding, eps):
    """Cross-entropy of each row, and its likeliest token."""
    logits = final_logits(h, norm, embedding, eps)
    return F.cross_entropy(logits, next_tokens, reduction="none"), logits.argmax(-1)


def routing_loss(q, k, k_cmp, position, g):
    """Cross-entropy of the free blocks' importance to the mass that full attention gives them.

    q [z, share, T, d], k [z, 1, T, d], k_cmp [z, Lc, d]; at queries `position`. Also returns the
    free mass that the chosen blocks hold, the most that as many could hold, and the free mass.
    """
    length, scale = k.shape[2], g.head_dim**-0.5
    picked = q[:, :, position]
    blocks = torch.arange(length // g.sel_block, device=q.device)
    own = position[:, None] // g.sel_block
    free = (blocks > 0) & (blocks <= own - 2)
    with torch.no_grad():
        scores = (picked @ k.transpose(-1, -2)).float() * scale
        ahead = torch.arange(length, device=q.device) > position[:, None]
        mass = torch.softmax(scores.masked_fill(ahead, -1e30), -1)
        mass = mass.unflatten(-1, (-1, g.sel_block)).sum(-1).mean(1) * free
        total = mass.sum(-1)
        share = mass / total[..., None].clamp(min=1e-20)
    scores = (picked @ k_cmp[:, None].transpose(-1, -2)).float() * scale
    last = torch.arange(k_cmp.shape[1], device=q.device) * g.cmp_stride + g.cmp_block - 1
    seen = last <= position[:, None]
    weights = torch.softmax(scores.masked_fill(~seen, -1e30), -1) * seen
    importance = block_importance(weights.sum(1), g) * free
    log_q = torch.log(importance + 1e-9) - torch.log(importance.sum(-1, keepdim=True) + 1e-9)
    log_p = torch.log(share.clamp(min=1e-20))
    loss = (mass * (log_p - log_q)).sum(-1).mean()
    with torch.no_grad():
        count = min(g.sel_count - 3, len(blocks))
        chosen = (importance + free).topk(count, -1).indices
        held = mass.gather(-1, chosen).sum(-1).mean() / total.mean()
        best = mass.topk(count, -1).values.sum(-1).mean() / total.mean()
    return loss, held, best, total.mean()
