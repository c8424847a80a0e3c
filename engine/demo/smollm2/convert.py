"""Turns the GGUF file of SmolLM2-135M-Instruct into a Hugging Face Llama folder.

    python3 convert.py FILE.gguf OUT

Weights are dequantised in float32 and rounded once to bf16. llama.cpp stores the rows of q and k so
that rotary pairs lie side by side (2i, 2i + 1); they go back to (i, i + d/2).
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import export  # noqa: E402
import tensor_file  # noqa: E402
from gguf_file import BadFile, read  # noqa: E402

NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
ENDS = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
SPECIAL = 3  # llama.cpp's type of a control token


def unpermuted(rows, heads):
    """Rows of q or k from llama.cpp's order to that of Hugging Face."""
    count, columns = rows.shape
    pairs = rows.reshape(heads, count // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(count, columns)


def model_weights(tensors, heads, groups):
    """{Hugging Face name: float32 array}, in the file's order."""
    out = {}
    for name, values in tensors.items():
        if name in ENDS:
            out[ENDS[name]] = values
            continue
        parts = name.split(".")
        if len(parts) != 4 or parts[::3] != ["blk", "weight"] or parts[2] not in NAMES:
            raise BadFile(f"the GGUF file holds tensor {name}, which no Llama model has")
        if parts[2] in ("attn_q", "attn_k"):
            values = unpermuted(values, heads if parts[2] == "attn_q" else groups)
        out[f"model.layers.{parts[1]}.{NAMES[parts[2]]}.weight"] = values
    return out


def llama_config(fields):
    def of(name):
        return fields["llama." + name]

    bos, eos = fields["tokenizer.ggml.bos_token_id"], fields["tokenizer.ggml.eos_token_id"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": of("embedding_length"),
        "intermediate_size": of("feed_forward_length"),
        "num_hidden_layers": of("block_count"),
        "num_attention_heads": of("attention.head_count"),
        "num_key_value_heads": of("attention.head_count_kv"),
        "head_dim": of("rope.dimension_count"),
        "vocab_size": of("vocab_size"),
        "rms_norm_eps": float(f"{of('attention.layer_norm_rms_epsilon'):.6g}"),
        "rope_theta": of("rope.freq_base"),
        "max_position_embeddings": of("context_length"),
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": bos,
        "eos_token_id": eos,
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
        "torch_dtype": "bfloat16",
    }


def tokenizer_of(fields):
    """llama.cpp's "smollm": every digit alone, then byte-level BPE with the GPT-2 expression."""
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    if fields["tokenizer.ggml.pre"] != "smollm":
        raise BadFile(f"the tokenizer is '{fields['tokenizer.ggml.pre']}', not 'smollm'")
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [
        {"id": i, "content": tokens[i], **flags, "special": True}
        for i, kind in enumerate(kinds)
        if kind == SPECIAL
    ]
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    bytes_["use_regex"] = True
    digits = {"type": "Digits", "individual_digits": True}
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token: i for i, token in enumerate(tokens)},
        "merges": [merge.split(" ") for merge in fields["tokenizer.ggml.merges"]],
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, bytes_]},
        "post_processor": None,
        "decoder": {**bytes_, "add_prefix_space": True},
        "model": model,
    }


def tokenizer_settings(fields, config):
    tokens = fields["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[config["bos_token_id"]],
        "eos_token": tokens[config["eos_token_id"]],
        "pad_token": tokens[config["pad_token_id"]],
        "unk_token": tokens[fields["tokenizer.ggml.unknown_token_id"]],
        "add_bos_token": fields["tokenizer.ggml.add_bos_token"],
        "chat_template": fields["tokenizer.chat_template"],
        "model_max_length": config["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
    }


def write_texts(folder, fields, config):
    """Everything but the weights."""
    ends = {name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    export.write_json(os.path.join(folder, "config.json"), config)
    export.write_json(os.path.join(folder, "generation_config.json"), ends)
    export.write_json(os.path.join(folder, "tokenizer.json"), tokenizer_of(fields))
    settings = tokenizer_settings(fields, config)
    export.write_json(os.path.join(folder, "tokenizer_config.json"), settings)


def convert(path, folder):
    """Writes the folder; returns ({name: Bf16}, config, fields)."""
    os.makedirs(folder, exist_ok=True)
    fields, tensors = read(path)
    config = llama_config(fields)
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    weights = {
        name: tensor_file.Bf16(values)
        for name, values in model_weights(tensors, heads, groups).items()
    }
    write_texts(folder, fields, config)
    target = os.path.join(folder, "model.safetensors")
    tensor_file.write(target, weights, {"format": "pt"})
    return weights, config, fields


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        convert(*sys.argv[1:])
    except (BadFile, OSError) as error:
        sys.exit(str(error))
