"""The exact merge: what the shipped files make of the dense weights, to the bit.

A merged matrix is W + B A: W the dense matrix (bf16), A and B the shipped factors (bf16), product
and sum in float64, rounded once to bf16, to nearest even. A product of two bf16 numbers has 16 bits
and 53 are there, so the order of the sum over the rank does not change what is rounded.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np  # noqa: E402

import export  # noqa: E402
import quantised  # noqa: E402
from gguf_file import BadFile  # noqa: E402

DROPPED = 45  # bits of a float64's fraction that bf16 does not have
SMALLEST = 2.0**-126  # bf16's least normal number; below it goes to zero
CAPTURED = (3, 16, 30)
DRAFT_WINDOW = 512


def rounded_to_bf16(values):
    """float64 -> the nearest bf16 number, ties to even, as float32."""
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    even = (bits >> np.uint64(DROPPED)) & np.uint64(1)
    bits = bits + np.uint64((1 << (DROPPED - 1)) - 1) + even
    kept = (bits >> np.uint64(DROPPED)) << np.uint64(DROPPED)
    out = kept.view(np.float64)
    return np.where(np.abs(out) < SMALLEST, 0.0, out).astype(np.float32)


def merged(w, a, b):
    """W + B A; all float32 arrays that hold bf16 numbers."""
    if w.shape != (b.shape[0], a.shape[1]) or a.shape[0] != b.shape[1]:
        raise BadFile(f"factors of {b.shape} and {a.shape} do not go with a matrix of {w.shape}")
    return rounded_to_bf16(w.astype(np.float64) + b.astype(np.float64) @ a.astype(np.float64))


def target_weights(dense, adapter):
    """{name: float32 array} of the sparse target: NSA tensors as shipped, factors merged."""
    out, factors = dict(dense), set()
    for name, values in adapter.items():
        stem, _, end = name.rpartition(".lora_")
        if not stem:
            out[name] = values
            continue
        if end not in ("a", "b") or f"{stem}.weight" not in dense:
            raise BadFile(f"the adapter's tensor {name} belongs to no dense matrix")
        factors.add(stem)
    for stem in sorted(factors):
        try:
            a, b = (adapter[f"{stem}.lora_{end}"] for end in "ab")
        except KeyError as missing:
            raise BadFile(f"the adapter has no tensor {missing.args[0]}") from None
        out[f"{stem}.weight"] = merged(dense[f"{stem}.weight"], a, b)
    return out


def target_config(dense):
    return {
        **dense,
        "architectures": ["VersieveNsaForCausalLM"],
        "model_type": "versieve-nsa",
        "nsa": dict(export.NSA_GEOMETRY),
    }


def draft_weights(dense, head):
    """(float32 weights, {name: integers or flags}) of the draft folder.

    Its output rows are the target's embedding rows of the proposed tokens with the shipped factors
    merged in; d2t and t2d say which tokens those are.
    """
    head = quantised.whole(head)
    tokens, embedding = head.pop("draft_tokens"), dense["model.embed_tokens.weight"]
    ascending = len(tokens) > 0 and np.all(np.diff(tokens) > 0)
    if not ascending or tokens[0] < 0 or tokens[-1] >= len(embedding):
        raise BadFile("the head's draft_tokens are not ascending tokens of the target")
    a, b = head.pop("lm_head.lora_a"), head.pop("lm_head.lora_b")
    weights = {**head, "lm_head.weight": merged(embedding[tokens], a, b)}
    known = np.zeros(len(embedding), np.bool_)
    known[tokens] = True
    return weights, {"d2t": tokens - np.arange(len(tokens)), "t2d": known}


def draft_config(dense, weights):
    return {
        **dense,
        "architectures": ["LlamaForCausalLMEagle3"],
        "intermediate_size": int(weights["midlayer.mlp.gate_proj.weight"].shape[0]),
        "num_hidden_layers": 1,
        "tie_word_embeddings": False,
        "draft_vocab_size": int(weights["lm_head.weight"].shape[0]),
        "sliding_window": DRAFT_WINDOW,
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": list(CAPTURED),
            "use_aux_hidden_state": True,
            "id_semantics": "entering_layer",
        },
    }


def dense_draft_weights(dense, shipped):
    """{name: float32 array} of the dense draft: the layers shipped, those below and the embedding
    the dense model's own."""
    shipped = quantised.whole(shipped)
    first = min((layer_of(name) for name in shipped if layer_of(name) is not None), default=0)
    out = {name: x for name, x in dense.items() if (layer_of(name) or 0) < first}
    for name, values in shipped.items():
        if name not in dense or values.shape != dense[name].shape:
            raise BadFile(f"the dense draft's tensor {name} is none of the dense model's")
        out[name] = values
    return out


def layer_of(name):
    parts = name.split(".")
    return int(parts[2]) if parts[:2] == ["model", "layers"] else None


def dense_draft_config(dense, weights):
    layers = 1 + max(layer_of(name) or 0 for name in weights)
    return {**dense, "num_hidden_layers": layers}
