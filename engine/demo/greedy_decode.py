"""Greedy decoding of many contexts of one length at once, with the target's NSA caches."""

import torch
import torch.nn.functional as F

from target_model import block_importance, choose_blocks, finish, linear, rms_norm, rotary_table
from target_model import rotate


class Decoder:
    """Caches [layers][B·G, capacity, d] of keys, raw keys, values and compressed ones.

    `captured` keeps the streams entering `layer_ids` from position `low` on: [B, capacity − low, hidden].
    """

    def __init__(self, target, batch, capacity, layer_ids=(), low=0):
        g, device = target.g, target.weights["model:norm"].device
        self.target, self.g, self.batch, self.length = target, g, batch, 0
        z = batch * g.num_key_value_heads

        def cache(rows):
            return [
                torch.zeros(z, rows, g.head_dim, dtype=g.dtype, device=device)
                for _ in range(g.num_hidden_layers)
            ]

        rows = -(-capacity // 64) * 64
        self.k, self.k_raw, self.v = cache(rows), cache(rows), cache(rows)
        self.k_cmp, self.v_cmp = cache(rows // g.cmp_stride), cache(rows // g.cmp_stride)
        self.layer_ids, self.low = layer_ids, low
        shape = (batch, capacity - low, g.hidden_size)
        self.captured = [torch.zeros(shape, device=device) for _ in layer_ids]
        self.next = torch.zeros(batch, dtype=torch.long, device=device)

    def prefill(self, rows, start, length):
        """Runs contexts `start` … of `length` tokens, padded behind (causality hides the padding)."""
        groups = self.g.num_key_value_heads
        place = slice(start * groups, (start + len(rows)) * groups)
        blocks = max(0, (length - self.g.cmp_block) // self.g.cmp_stride + 1)

        def watch(layer, parts, chosen):
            self.k[layer][place, :length] = parts["k"][:, 0, :length].detach()
            self.v[layer][place, :length] = parts["v"][:, 0, :length].detach()
            self.k_raw[layer][place, :length] = parts["k_raw"][:, :length].detach()
            self.k_cmp[layer][place, :blocks] = parts["k_cmp"][:, :blocks].detach()
            self.v_cmp[layer][place, :blocks] = parts["v_cmp"][:, :blocks].detach()

        with torch.enable_grad():
            h, captured = self.target(rows, capture=self.layer_ids, watch=watch)
            last = self.target.logits(h[:, length - 1]).detach()
        self.next[start : start + len(rows)] = last.argmax(-1)
        for kept, stream in zip(self.captured, captured):
            kept[start : start + len(rows), : length - self.low] = stream[
                :, self.low : length
            ].detach()
        self.length = length

    def attend(self, layer, q, gates, position):
        """q [z, share, 1, d]: the three branches over the caches up to `position`."""
        g = self.g
        k, v = self.k[layer], self.v[layer]
        scale, seen = g.head_dim**-0.5, (position + 1 - g.cmp_block) // g.cmp_stride + 1
        blocks = position // g.sel_block + 1
        weights = torch.softmax((q @ self.k_cmp[layer][:, None, :seen].mT).float() * scale, -1)
        compressed = weights.to(q.dtype) @ self.v_cmp[layer][:, None, :seen]
        padded = F.pad(weights.sum(1), (0, 4 * blocks - 1 - seen))
        at = torch.tensor([position], device=q.device)
        chosen = choose_blocks(block_importance(padded, g), at, g)
        visible = chosen.repeat_interleave(g.sel_block, -1)[:, None, :, : position + 1]
        scores = (q @ k[:, None, : position + 1].mT).float() * scale
        selected = (
            torch.softmax(scores.masked_fill(~visible, -1e30), -1).to(q.dtype)
            @ v[:, None, : position + 1]
        )
        low = max(0, position + 1 - g.window)
        recent = torch.softmax(scores[..., low:], -1).to(q.dtype) @ v[:, None, low : position + 1]
        return compressed, selected, recent

    def step(self, tokens):
        """Feeds one token a context; returns the next greedy ones."""
        g, target, position = self.g, self.target, self.length
        heads, groups, width = g.num_attention_heads, g.num_key_value_heads, g.head_dim
        share, z = heads // groups, self.batch * groups
        device = tokens.device
        table = rotary_table(torch.tensor([position], device=device), width, g.theta)
        ready = position + 1 >= g.cmp_block and (position + 1 - g.cmp_block) % g.cmp_stride == 0
        h = F.embedding(tokens, target.weights["model:embed_tokens"])[:, None]
        for i in range(g.num_hidden_layers):
            self.keep(i, h)
            w = target.layer_weights(i)
            x = rms_norm(h, w["input_layernorm.weight"], g.eps).to(g.dtype)
            q = linear(x, w["self_attn.q_proj.weight"]).view(z, share, 1, width)
            k = linear(x, w["self_attn.k_proj.weight"]).view(z, 1, width)
            v = linear(x, w["self_attn.v_proj.weight"]).view(z, width)
            self.k_raw[i][:, position], self.v[i][:, position] = k[:, 0], v
            self.k[i][:, position] = rotate(k, table)[:, 0]
            if ready:
                self.compress(i, w, position)
            gates = torch.sigmoid(linear(x, w["self_attn.g_proj.weight"]).float()).view(
                z, share, 1, 3
            )
            branches = self.attend(i, rotate(q, table), gates, position)
            h = finish(h, gates, branches, w, g)
        self.keep(g.num_hidden_layers, h)
        self.length += 1
        return target.logits(h[:, 0]).argmax(-1)

    def keep(self, layer, h):
        if layer in self.layer_ids:
            self.captured[self.layer_ids.index(layer)][:, self.length - self.low] = h[:, 0]

    def compress(self, layer, w, position):
        g, groups = self.g, self.g.num_key_value_heads
        low = position + 1 - g.cmp_block
        k = self.k_raw[layer][:, low : position + 1].unflatten(0, (-1, groups)).float()
        v = self.v[layer][:, low : position + 1].unflatten(0, (-1, groups)).float()
        k = torch.einsum(
            "gj,bgjd->bgd", w["self_attn.compress_key"], k + w["self_attn.intra_block_pe"]
        )
        v = torch.einsum("gj,bgjd->bgd", w["self_attn.compress_value"], v)
        table = rotary_table(torch.tensor([low], device=k.device), g.head_dim, g.theta)
        row = low // g.cmp_stride
        self.k_cmp[layer][:, row] = rotate(k[:, :, None], table)[:, :, 0].flatten(0, 1).to(g.dtype)
        self.v_cmp[layer][:, row] = v.flatten(0, 1).to(g.dtype)

    def greedy(self, count):
        """The next `count` greedy tokens [B, count], all of them fed."""
        found = []
        while len(found) < count:
            found.append(self.next)
            self.next = self.step(self.next)
        return torch.stack(found, 1)
