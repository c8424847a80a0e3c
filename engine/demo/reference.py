"""What does the exported pair compute, exactly? A slow float64 forward, one query at a time.

Written from README.md's contract alone and from the exported files: nothing here is shared with
the training code, so that agreement of the two is evidence. Writes the parity files that the C++
tests read.  Usage: reference.py MODEL_FOLDER PROMPT_FILE OUTPUT [MAX_TOKENS]
"""

import sys

import numpy as np

import tensor_file

LAST_LOGITS, LAST_HIDDEN, LAST_DRAFT, CHAIN = 16, 4, 8, 7


def rms_norm(x, weight, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * weight


def rotate(x, positions, theta):
    """x [T, heads, d], positions [T]: pairs (i, i + d/2), angle position * theta^(-2i/d)."""
    half = x.shape[-1] // 2
    angle = positions[:, None] * theta ** (-np.arange(half) / half)
    cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
    low, high = x[..., :half], x[..., half:]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def attend(query, keys, values):
    """query [R, d], keys and values [K, d] -> [R, d]; no keys give 0."""
    if len(keys) == 0:
        return np.zeros_like(query)
    return softmax(query @ keys.T / np.sqrt(query.shape[1])) @ values


def block_importance(probabilities, blocks, geometry):
    """probabilities [R, C] of the compressed tokens -> [blocks], summed over the R heads."""
    per_block = geometry["sel_block"] // geometry["cmp_stride"]
    overlap = geometry["cmp_block"] // geometry["cmp_stride"]
    total = np.zeros(blocks)
    summed = probabilities.sum(axis=0)
    for j in range(blocks):
        for m in range(per_block):
            for u in range(overlap):
                i = per_block * j + m - u
                if 0 <= i < len(summed):
                    total[j] += summed[i]
    return total


def choose_blocks(importance, geometry):
    """Forced blocks first, the rest by importance, the lower index first among equals."""
    blocks = len(importance)
    local = range(max(0, blocks - geometry["local_blocks"]), blocks)
    forced = sorted(set(range(min(geometry["init_blocks"], blocks))) | set(local))
    rest = [j for j in range(blocks) if j not in forced]
    rest.sort(key=lambda j: (-importance[j], j))
    room = geometry["sel_count"] - len(forced)
    margin = np.inf
    if len(rest) > room:
        margin = importance[rest[room - 1]] - importance[rest[room]]
    return sorted(forced + rest[:room]), margin


def sparse_attention(q, k, v, k_cmp, v_cmp, gates, geometry):
    """q [T,H,d], k v [T,G,d], k_cmp v_cmp [Lc,G,d], gates [T,H,3] -> out, indices, margins."""
    tokens, heads, width = q.shape
    groups = k.shape[1]
    share = heads // groups
    block, window = geometry["sel_block"], geometry["window"]
    out = np.zeros_like(q)
    indices = np.full((tokens, groups, geometry["sel_count"]), -1, np.int32)
    margins = np.zeros((tokens, groups))
    for t in range(tokens):
        visible = max(0, (t + 1 - geometry["cmp_block"]) // geometry["cmp_stride"] + 1)
        for g in range(groups):
            rows = slice(g * share, (g + 1) * share)
            query = q[t, rows]
            compressed = np.zeros_like(query)
            importance = np.zeros(t // block + 1)
            if visible:
                weights = softmax(query @ k_cmp[:visible, g].T / np.sqrt(width))
                compressed = weights @ v_cmp[:visible, g]
                importance = block_importance(weights, t // block + 1, geometry)
            chosen, margins[t, g] = choose_blocks(importance, geometry)
            indices[t, g, : len(chosen)] = chosen
            seen = np.concatenate(
                [np.arange(j * block, min((j + 1) * block, t + 1)) for j in chosen]
            )
            selected = attend(query, k[seen, g], v[seen, g])
            near = slice(max(0, t - window + 1), t + 1)
            recent = attend(query, k[near, g], v[near, g])
            gate = gates[t, rows]
            out[t, rows] = gate[:, :1] * compressed + gate[:, 1:2] * selected + gate[:, 2:] * recent
    return out, indices, margins


def compress(k_raw, v, weights, prefix, config):
    """The compressed keys and values [Lc, G, d], keys rotated at their first token's position."""
    geometry = config["nsa"]
    length, stride = geometry["cmp_block"], geometry["cmp_stride"]
    count = max(0, (len(k_raw) - length) // stride + 1)
    keys = np.zeros((count,) + k_raw.shape[1:])
    values = np.zeros_like(keys)
    for i in range(count):
        span = slice(i * stride, i * stride + length)
        embedded = k_raw[span] + weights[prefix + "intra_block_pe"].transpose(1, 0, 2)
        keys[i] = np.einsum("gj,jgd->gd", weights[prefix + "compress_key"], embedded)
        values[i] = np.einsum("gj,jgd->gd", weights[prefix + "compress_value"], v[span])
    return rotate(keys, np.arange(count) * stride, config["rope_theta"]), values


def run_target(config, weights, tokens):
    """Returns logits [T,V], the residual streams [layers+1,T,hidden], indices and margins by layer."""
    heads, groups, width = (
        config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    eps, theta = config["rms_norm_eps"], config["rope_theta"]
    length = len(tokens)
    positions = np.arange(length)
    h = weights["model.embed_tokens.weight"][tokens]
    streams, indices, margins = [h], [], []
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        attention = prefix + "self_attn."

        def project(name, x):
            return x @ weights[name + "_proj.weight"].T

        x = rms_norm(h, weights[prefix + "input_layernorm.weight"], eps)
        q = project(attention + "q", x).reshape(length, heads, width)
        k_raw = project(attention + "k", x).reshape(length, groups, width)
        v = project(attention + "v", x).reshape(length, groups, width)
        q, k = rotate(q, positions, theta), rotate(k_raw, positions, theta)
        gates = 1 / (1 + np.exp(-project(attention + "g", x)))
        k_cmp, v_cmp = compress(k_raw, v, weights, attention, config)
        mixed, chosen, margin = sparse_attention(
            q, k, v, k_cmp, v_cmp, gates.reshape(length, heads, 3), config["nsa"]
        )
        indices.append(chosen)
        margins.append(margin)
        h = h + project(attention + "o", mixed.reshape(length, heads * width))
        x = rms_norm(h, weights[prefix + "post_attention_layernorm.weight"], eps)
        mlp = prefix + "mlp."
        h = h + project(mlp + "down", silu(project(mlp + "gate", x)) * project(mlp + "up", x))
        streams.append(h)
    final = rms_norm(h, weights["model.norm.weight"], eps)
    head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return final @ head.T, np.stack(streams), indices, margins


class Draft:
    """The EAGLE-3-style head over committed entries, and a greedy chain after them."""

    def __init__(self, config, weights, embedding):
        self.config, self.weights, self.embedding = config, weights, embedding

    def start(self, tokens, streams):
        """Runs entries 1 … T-1 with true features; returns their logits and features."""
        ids = self.config["eagle_config"]["eagle_aux_hidden_state_layer_ids"]
        captured = np.concatenate([streams[j] for j in ids], axis=-1)
        features = captured[:-1] @ self.weights["fc.weight"].T
        groups, width = self.config["num_key_value_heads"], self.config["head_dim"]
        self.positions = np.zeros(0, int)
        self.keys = np.zeros((0, groups, width))
        self.values = np.zeros((0, groups, width))
        return self.run(tokens[1:], features, np.arange(1, len(tokens)))

    def run(self, tokens, features, positions):
        """Appends the entries and returns (logits, own features) [entries, …]."""
        config, w = self.config, self.weights
        heads, groups, width = (
            config[key] for key in ("num_attention_heads", "num_key_value_heads", "head_dim")
        )
        eps, theta, window = config["rms_norm_eps"], config["rope_theta"], config["sliding_window"]
        count, share = len(tokens), heads // groups
        x = np.concatenate(
            [
                rms_norm(self.embedding[tokens], w["midlayer.input_layernorm.weight"], eps),
                rms_norm(features, w["midlayer.hidden_norm.weight"], eps),
            ],
            axis=-1,
        )
        attention, mlp = "midlayer.self_attn.", "midlayer.mlp."
        q = (x @ w[attention + "q_proj.weight"].T).reshape(count, heads, width)
        k = (x @ w[attention + "k_proj.weight"].T).reshape(count, groups, width)
        v = (x @ w[attention + "v_proj.weight"].T).reshape(count, groups, width)
        q = rotate(q, positions, theta)
        self.keys = np.concatenate([self.keys, rotate(k, positions, theta)])
        self.values = np.concatenate([self.values, v])
        self.positions = np.concatenate([self.positions, positions])
        mixed = np.zeros_like(q)
        for row, p in enumerate(positions):
            seen = (self.positions > p - window) & (self.positions <= p)
            for g in range(groups):
                rows = slice(g * share, (g + 1) * share)
                mixed[row, rows] = attend(q[row, rows], self.keys[seen, g], self.values[seen, g])
        h = features + mixed.reshape(count, heads * width) @ w[attention + "o_proj.weight"].T
        x = rms_norm(h, w["midlayer.post_attention_layernorm.weight"], eps)
        gated = silu(x @ w[mlp + "gate_proj.weight"].T) * (x @ w[mlp + "up_proj.weight"].T)
        h = h + gated @ w[mlp + "down_proj.weight"].T
        return rms_norm(h, w["norm.weight"], eps) @ w["lm_head.weight"].T, h

    def chain(self, logits, feature, position, steps):
        """Greedy drafts after the entry at `position`: tokens [steps], logits [steps, V]."""
        tokens, rows = [], []
        for _ in range(steps):
            rows.append(logits)
            tokens.append(int(np.argmax(logits)))
            position += 1
            logits, feature = (
                value[0]
                for value in self.run(np.array([tokens[-1]]), feature[None], np.array([position]))
            )
        return np.array(tokens, np.int32), np.stack(rows)


def upcast(weights):
    return {name: value.astype(np.float64) for name, value in weights.items()}


def parity(folder, text):
    """All parity tensors of one prompt (bytes), as float32 and int32."""
    config, weights = tensor_file.read_model(folder)
    draft_config, draft_weights = tensor_file.read_model(folder + "/draft")
    weights, draft_weights = upcast(weights), upcast(draft_weights)
    tokens = np.array([config["bos_token_id"]] + list(text), np.int32)
    logits, streams, indices, margins = run_target(config, weights, tokens)
    draft = Draft(draft_config, draft_weights, weights["model.embed_tokens.weight"])
    draft_logits, features = draft.start(tokens, streams)
    chain, chain_logits = draft.chain(draft_logits[-1], features[-1], len(tokens) - 1, CHAIN)
    ends, edges = (indices[0], indices[-1]), (margins[0], margins[-1])
    tensors = {
        "tokens": tokens,
        "logits": logits[-LAST_LOGITS:],
        "hidden_layers": streams[:, -LAST_HIDDEN:],
        "draft_logits": draft_logits[-LAST_DRAFT:],
        "draft_chain_tokens": chain,
        "draft_chain_logits": chain_logits,
        "greedy": np.argmax(logits, axis=-1).astype(np.int32),
        "draft_feature": features[-LAST_DRAFT:],
        "indices": np.stack([rows[-LAST_LOGITS:] for rows in ends]),
        "selection_margin": np.stack([rows[-LAST_LOGITS:] for rows in edges]),
    }
    return {
        name: value if value.dtype == np.int32 else value.astype(np.float32)
        for name, value in tensors.items()
    }


def main():
    folder, prompt, output = sys.argv[1:4]
    with open(prompt, "rb") as file:
        text = file.read()
    if len(sys.argv) > 4:
        text = text[: int(sys.argv[4]) - 1]
    tensors = parity(folder, text)
    tensor_file.write(
        output, tensors, {"prompt": prompt.rsplit("/", 1)[-1], "arithmetic": "float64"}
    )
    print(output, {name: value.shape for name, value in tensors.items()})


if __name__ == "__main__":
    main()
