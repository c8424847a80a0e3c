"""Writes text with the dense model, thousands of rows at once: one step of all rows a CUDA graph.

Every row is fed its own queue (data.py): forced tokens, and at each mark the model's own choice
until it ends its turn. All rows stand at the same position, so no row is padded, and one captured
graph serves every position: decode_attention.py reads the caches as far as they are written.
"""

import torch
import torch.nn.functional as F

from sparse_model import final_logits
from target_model import linear, rms_norm, rotary_table, rotate

ANSWER, ENDS = 65535, (0, 2)


def enter(h, norm, matrix, table, g):
    """q [B·G, share, d], k and v [B·G, 1, d] of one token a row."""
    heads, groups, width = g.num_attention_heads, g.num_key_value_heads, g.head_dim
    x = linear(rms_norm(h, norm, g.eps).to(g.dtype), matrix).view(len(h), -1, 1, width)
    q, k, v = x.split((heads, groups, groups), 1)
    q, k = rotate(q, table), rotate(k, table)
    wide = (len(h) * groups, -1, width)
    return q.reshape(wide).contiguous(), k.reshape(wide), v.reshape(wide)


def leave(h, mixed, o_proj, norm, gate_up, down, g):
    h = h + linear(mixed.reshape(len(h), -1), o_proj)
    x = rms_norm(h, norm, g.eps).to(g.dtype)
    gate, up = linear(x, gate_up).chunk(2, -1)
    return h + linear(F.silu(gate) * up, down)


def choose(h, norm, embedding, noise, temperature, eps):
    """Gumbel's trick; noise is exponential. A temperature of 0 is greedy."""
    logits = final_logits(h, norm, embedding, eps)
    hot = logits / temperature.clamp(min=1e-3)[:, None] - torch.log(noise + 1e-20)
    return torch.where(temperature > 0, hot.argmax(-1), logits.argmax(-1))


def masked_attention(q, k, v, place):
    """decode_attention's result without its kernel: reads the caches whole."""
    slots = torch.arange(k.shape[1], device=k.device)
    unseen = torch.where(slots <= place, 0.0, -1e30).to(q.dtype)
    scores = torch.baddbmm(unseen[None, None], q, k.transpose(1, 2), alpha=q.shape[2] ** -0.5)
    return torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype) @ v


def attention_on(device):
    """The kernel, where it runs and agrees."""
    if device.type != "cuda":
        return masked_attention
    try:
        from decode_attention import decode_attention

        q, k, v = (torch.randn(6, n, 64, device=device).bfloat16() for n in (3, 256, 256))
        place = torch.tensor([150], device=device)
        found, wanted = (f(q, k, v, place) for f in (decode_attention, masked_attention))
        if (found - wanted).abs().max() < 0.05:
            return decode_attention
        print("decode_attention disagrees; without it", flush=True)
    except Exception as error:  # Triton raises many kinds
        print("decode_attention does not run; without it:", error, flush=True)
    return masked_attention


class Sampler:
    def __init__(self, g, base, batch, length, compiled):
        self.g, self.base, self.batch, self.length = g, base, batch, length
        wrap = (lambda f: torch.compile(f, dynamic=False)) if compiled else (lambda f: f)
        self.enter, self.leave, self.choose = wrap(enter), wrap(leave), wrap(choose)
        device = self.device = base["model.norm.weight"].device
        self.attention = attention_on(device)
        z, width = batch * g.num_key_value_heads, g.head_dim
        self.k, self.v = (
            [torch.zeros(z, length, width, dtype=g.dtype, device=device) for _ in range(layers)]
            for layers in (g.num_hidden_layers, g.num_hidden_layers)
        )
        self.table = rotary_table(torch.arange(length, device=device), width, g.theta)
        self.layers = [self.fused(i) for i in range(g.num_hidden_layers)]
        self.tokens = torch.zeros(batch, dtype=torch.long, device=device)
        self.place = torch.zeros(1, dtype=torch.long, device=device)
        self.cursor = torch.zeros(batch, dtype=torch.long, device=device)
        self.temperature = torch.ones(batch, device=device)
        self.noise = torch.ones(batch, g.vocab_size, device=device)
        self.written = torch.zeros(batch, length, dtype=torch.long, device=device)
        self.queue, self.graph = None, None

    def fused(self, i):
        def of(name):
            return self.base[f"model.layers.{i}.{name}.weight"]

        qkv = torch.cat([of(f"self_attn.{x}_proj") for x in "qkv"])
        gate_up = torch.cat([of("mlp.gate_proj"), of("mlp.up_proj")])
        norms = of("input_layernorm"), of("post_attention_layernorm")
        return norms[0], qkv, of("self_attn.o_proj"), norms[1], gate_up, of("mlp.down_proj")

    def step(self):
        """Runs the tokens at `place`, writes the next, moves on."""
        g = self.g
        table = tuple(side.index_select(0, self.place) for side in self.table)
        h = F.embedding(self.tokens, self.base["model.embed_tokens.weight"]).float()
        for (norm, qkv, o_proj, after, gate_up, down), keys, values in zip(
            self.layers, self.k, self.v
        ):
            q, k, v = self.enter(h, norm, qkv, table, g)
            keys.index_copy_(1, self.place, k)
            values.index_copy_(1, self.place, v)
            mixed = self.attention(q, keys, values, self.place)
            h = self.leave(h, mixed, o_proj, after, gate_up, down, g)
        embedding = self.base["model.embed_tokens.weight"]
        self.noise.exponential_()
        final_norm = self.base["model.norm.weight"]
        self.emit(self.choose(h, final_norm, embedding, self.noise, self.temperature, g.eps))

    def emit(self, sampled):
        """The next token of each row: from its queue, or `sampled` where a mark stands."""
        asked = self.queue.gather(1, self.cursor[:, None])[:, 0]
        answering = asked == ANSWER
        token = torch.where(answering, sampled, asked)
        ended = (token == ENDS[0]) | (token == ENDS[1])
        self.cursor += (~answering | ended).long()
        self.cursor.clamp_(max=self.queue.shape[1] - 1)
        self.tokens.copy_(token)
        self.place += 1
        self.written.index_copy_(1, self.place.clamp(max=self.length - 1), token[:, None])

    def capture(self):
        """The graph of one step; what the warm-up does to the state is undone by `start`."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()

    def start(self, queue, temperature):
        if self.queue is None:
            self.queue = torch.empty_like(queue)
        self.queue.copy_(queue)
        self.temperature.copy_(temperature)
        self.tokens.copy_(queue[:, 0])
        self.written.zero_()
        self.written[:, 0] = queue[:, 0]
        self.cursor.fill_(1)
        self.place.zero_()

    @torch.no_grad()
    def run(self, queue, temperature):
        """queue [B, n] long, temperature [B] -> tokens [B, length]."""
        if self.graph is None and self.device.type == "cuda":
            self.start(queue, temperature)
            self.capture()
        self.start(queue, temperature)
        for _ in range(self.length - 1):
            if self.graph:
                self.graph.replay()
            else:
                self.step()
        return self.written.clone()
