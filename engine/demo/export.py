"""Writes a trained pair as the model folders that the C++ loader reads (contract: README.md)."""

import json
import os

import tensor_file

SHARD_BYTES = 12 * 1024 * 1024
BOS, EOS, PAD, VOCAB = 256, 257, 258, 272
NSA_GEOMETRY = {
    "semantics": "compress_before_rope",
    "pooling": "weighted",
    "cmp_block": 32,
    "cmp_stride": 16,
    "sel_block": 64,
    "sel_count": 16,
    "init_blocks": 1,
    "local_blocks": 2,
    "window": 512,
}


def llama_config(shape, max_positions):
    """The Llama fields that target and draft share; `shape` has the geometry's own names."""
    return {
        "hidden_size": shape["hidden_size"],
        "intermediate_size": shape["intermediate_size"],
        "num_hidden_layers": shape["num_hidden_layers"],
        "num_attention_heads": shape["num_attention_heads"],
        "num_key_value_heads": shape["num_key_value_heads"],
        "head_dim": shape["head_dim"],
        "vocab_size": VOCAB,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "max_position_embeddings": max_positions,
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
        "torch_dtype": "bfloat16",
    }


def target_config(shape, max_positions=16384):
    return {
        "architectures": ["VersieveNsaForCausalLM"],
        "model_type": "versieve-nsa",
        **llama_config(shape, max_positions),
        "tie_word_embeddings": True,
        "nsa": dict(NSA_GEOMETRY),
    }


def draft_config(shape, layer_ids, window=512, max_positions=16384):
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        **llama_config(shape, max_positions),
        "draft_vocab_size": VOCAB,
        "sliding_window": window,
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": list(layer_ids),
            "use_aux_hidden_state": True,
            "id_semantics": "entering_layer",
        },
    }
    config["num_hidden_layers"] = 1
    return config


def json_text(value):
    return json.dumps(value, indent=1) + "\n"


def write_json(path, value):
    with open(path, "w") as file:
        file.write(json_text(value))


def write_tokenizer(folder):
    specials = {"<bos>": BOS, "<eos>": EOS, "<pad>": PAD}
    write_json(
        os.path.join(folder, "tokenizer.json"),
        {"type": "bytes", "vocab_size": VOCAB, "specials": specials},
    )


def write_model(folder, config, weights, shard_bytes=SHARD_BYTES, one_file=False):
    """Writes config and float32 `weights` as bf16; several shards unless `one_file`."""
    os.makedirs(folder, exist_ok=True)
    write_json(os.path.join(folder, "config.json"), config)
    tensors = {name: tensor_file.Bf16(value) for name, value in weights.items()}
    if one_file:
        tensor_file.write(os.path.join(folder, "model.safetensors"), tensors, {"format": "pt"})
        return
    shards, room = [{}], shard_bytes
    for name, tensor in tensors.items():
        size = tensor.bits.nbytes
        if shards[-1] and size > room:
            shards.append({})
            room = shard_bytes
        shards[-1][name] = tensor
        room -= size
    weight_map, total = {}, 0
    for number, shard in enumerate(shards, 1):
        file_name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        tensor_file.write(os.path.join(folder, file_name), shard, {"format": "pt"})
        for name, tensor in shard.items():
            weight_map[name] = file_name
            total += tensor.bits.nbytes
    write_json(
        os.path.join(folder, "model.safetensors.index.json"),
        {"metadata": {"total_size": total}, "weight_map": weight_map},
    )
    write_tokenizer(folder)
