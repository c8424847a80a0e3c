#!/usr/bin/env python3
"""Tiny random checkpoints of every dense architecture, and the logits that transformers gives them.

    python3 make.py [NAME ...]        # needs torch and transformers; rewrites the folders beside it

Weights are random and rounded to the type they are stored in; the logits are computed from the
rounded weights with everything that transformers does in float32 (norms, rotary, softmax) in
float64. What is stored: config.json as transformers writes it, or as older releases did; weights;
expected.safetensors with `tokens` [T] and `logits` [R, V] of the last R, all of a short text.
"""
import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
TOKENS, VOCAB, HIDDEN = 44, 40, 32
LONG, LAST = {"llama-long": 1100}, 16

BASE = dict(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=40, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=256,
            rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2, pad_token_id=None)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=24)

# name: (class prefix, config, stored as, shards, how config.json spells rotary)
CASES = {
    "llama": ("Llama", dict(rope_parameters=dict(rope_theta=5000.0)), "F32", 1, "old"),
    "llama-linear": ("Llama", dict(rope_parameters=dict(rope_type="linear", factor=3.0)),
                     "BF16", 1, "oldest"),
    "llama-llama3": ("Llama", dict(tie_word_embeddings=True, head_dim=32, rope_parameters=dict(
        rope_theta=10000.0, **LLAMA3)), "F16", 1, "new"),
    "llama-yarn": ("Llama", dict(head_dim=32, rope_parameters=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=64)), "BF16", 1, "oldest"),
    "llama-yarn-mscale": ("Llama", dict(head_dim=32, rope_parameters=dict(
        rope_type="yarn", factor=8.0, original_max_position_embeddings=32, beta_fast=16.0,
        beta_slow=2.0, mscale=0.8, mscale_all_dim=0.4, truncate=False)), "BF16", 1, "new"),
    "llama-yarn-attention-factor": ("Llama", dict(rope_parameters=dict(
        rope_theta=1000.0, rope_type="yarn", factor=2.0, attention_factor=1.3,
        original_max_position_embeddings=128)), "BF16", 1, "old"),
    "mistral-window": ("Mistral", dict(head_dim=16, sliding_window=12, num_hidden_layers=3),
                       "BF16", 3, "new"),
    "mistral": ("Mistral", dict(sliding_window=None, rope_parameters=dict(rope_theta=1e6)),
                "BF16", 1, "old"),
    "qwen2": ("Qwen2", dict(tie_word_embeddings=True, sliding_window=8,
                            rope_parameters=dict(rope_theta=1e6)), "BF16", 1, "old"),
    "qwen2-window": ("Qwen2", dict(use_sliding_window=True, sliding_window=10,
                                   max_window_layers=1), "F16", 1, "new"),
    "qwen3": ("Qwen3", dict(head_dim=32, rope_parameters=dict(rope_theta=1e6)), "BF16", 1, "old"),
    "qwen3-window": ("Qwen3", dict(head_dim=16, use_sliding_window=True, sliding_window=9,
                                   layer_types=["sliding_attention", "full_attention"]),
                     "F16", 2, "new"),
    "smollm2": ("Llama", dict(hidden_size=48, num_attention_heads=3, num_key_value_heads=1,
                              tie_word_embeddings=True, rope_parameters=dict(rope_theta=1e5)),
                "BF16", 1, "old"),
    "smollm3": ("SmolLM3", dict(no_rope_layers=[1, 0, 1], num_hidden_layers=3,
                                rope_parameters=dict(rope_theta=5e6)), "BF16", 1, "new"),
    "llama-long": ("Llama", dict(tie_word_embeddings=True, num_hidden_layers=3,
                                 max_position_embeddings=2048,
                                 rope_parameters=dict(rope_theta=500000.0)), "BF16", 1, "new"),
}
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Doubled:
    """Makes float64 of every float32 that transformers asks for."""

    def __enter__(self):
        self.kept = (torch.Tensor.float, torch.Tensor.to, torch.nn.functional.softmax, torch.arange)
        _, to, softmax, arange = self.kept
        widened = lambda x: torch.float64 if x is torch.float32 else x
        torch.Tensor.float = torch.Tensor.double
        torch.Tensor.to = lambda t, *a, **k: to(t, *[widened(x) for x in a],
                                                **{n: widened(x) for n, x in k.items()})
        torch.nn.functional.softmax = lambda x, dim=None, dtype=None, **k: softmax(
            x, dim=dim, dtype=widened(dtype))
        torch.arange = lambda *a, dtype=None, **k: arange(*a, dtype=widened(dtype), **k)
        torch.set_default_dtype(torch.float64)
        return self

    def __exit__(self, *_):
        (torch.Tensor.float, torch.Tensor.to, torch.nn.functional.softmax,
         torch.arange) = self.kept
        torch.set_default_dtype(torch.float32)


def widen_rotary(rotary):
    """A model keeps its frequencies in float32 whatever it is asked for."""
    kinds = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS
    compute = kinds.get(rotary.rope_type, rotary.compute_default_rope_parameters)
    rotary.inv_freq, rotary.attention_scaling = compute(rotary.config)
    assert rotary.inv_freq.dtype == torch.float64


def randomise(model, generator, stored):
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if "norm" in name:
            values = 1.0 + 0.25 * noise
        elif name.endswith(".bias"):
            values = 0.5 * noise
        elif "embed" in name or "lm_head" in name:
            values = 0.7 * noise
        else:
            values = 1.3 * noise / parameter.shape[-1] ** 0.5
        parameter.data = values.type(stored).double()


def respelled(config, form):
    """Older releases wrote rope_theta outside, and a scaling as rope_scaling."""
    if form == "new":
        return config
    rope = dict(config.pop("rope_parameters"))
    config["rope_theta"] = rope.pop("rope_theta")
    if rope.get("rope_type", "default") == "default":
        config["rope_scaling"] = None
    else:
        if form == "oldest":
            rope["type"] = rope.pop("rope_type")
        config["rope_scaling"] = rope
    config["torch_dtype"] = config.pop("dtype", None)
    return config


def store(folder, model, stored, shards, form):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = json.loads(model.config.to_json_string(use_diff=True))
    config["dtype"] = str(stored).removeprefix("torch.")
    config.pop("transformers_version", None)
    (folder / "config.json").write_text(json.dumps(respelled(config, form), indent=1) + "\n")
    tensors = {n: t.to(stored).contiguous() for n, t in model.state_dict().items()
               if not (n == "lm_head.weight" and model.config.tie_word_embeddings)}
    if shards == 1:
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return
    names, weight_map = sorted(tensors), {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        save_file({n: tensors[n] for n in names[i::shards]}, folder / file, {"format": "pt"})
        weight_map.update({n: file for n in names[i::shards]})
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}) + "\n")


def make(name, seed):
    prefix, more, type_name, shards, form = CASES[name]
    stored = TYPES[type_name]
    generator = torch.Generator().manual_seed(seed)
    with Doubled():
        config = getattr(transformers, prefix + "Config")(**{**BASE, **more})
        config._attn_implementation = "eager"
        model = getattr(transformers, prefix + "ForCausalLM")(config).double().eval()
        randomise(model, generator, stored)
        widen_rotary(model.model.rotary_emb)
        model.tie_weights()
        tokens = torch.randint(0, VOCAB, (1, LONG.get(name, TOKENS)), generator=generator)
        with torch.no_grad():
            logits = model(tokens).logits[0, -LAST if name in LONG else 0:]
    assert logits.dtype == torch.float64
    store(HERE / name, model, stored, shards, form)
    save_file({"tokens": tokens[0].int(), "logits": logits.contiguous()},
              HERE / name / "expected.safetensors")
    return logits


def main():
    for i, name in enumerate(CASES):
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            logits = make(name, 100 + i)
            size = sum(f.stat().st_size for f in (HERE / name).iterdir())
            print(f"{name}: {size} bytes, logits {logits.std():.2f} about {logits.mean():.2f}")


if __name__ == "__main__":
    main()
