"""Reads and writes safetensors files with numpy alone; bf16 travels as its upper 16 bits.

Answers: how do the demo's weights, prompts' parity values and shards get on and off disk?
"""

import json
import os
import struct

import numpy as np

DTYPES = {"F32": np.float32, "F64": np.float64, "I8": np.int8, "I32": np.int32, "I64": np.int64}
DTYPES["BOOL"] = np.bool_
NAMES = {np.dtype(value): key for key, value in DTYPES.items()}


class Bf16:
    """A bf16 tensor: its bits as uint16, rounded to nearest even from float32."""

    def __init__(self, values):
        bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
        self.bits = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        self.shape = self.bits.shape

    def values(self):
        return (self.bits.astype(np.uint32) << 16).view(np.float32)


def read(path):
    """Returns {name: array}; bf16 is upcast to float32."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        raw = data[begin:end]
        if entry["dtype"] == "BF16":
            array = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            array = np.frombuffer(raw, DTYPES[entry["dtype"]])
        tensors[name] = array.reshape(entry["shape"])
    return tensors


def write(path, tensors, metadata=None):
    """Writes {name: array or Bf16} to a temporary name, syncs, and renames it to `path`."""
    header, blobs, offset = {}, [], 0
    if metadata:
        header["__metadata__"] = {key: str(value) for key, value in metadata.items()}
    for name, tensor in tensors.items():
        if isinstance(tensor, Bf16):
            dtype, blob, shape = "BF16", tensor.bits.tobytes(), tensor.shape
        else:
            tensor = np.ascontiguousarray(tensor)
            dtype, blob, shape = NAMES[tensor.dtype], tensor.tobytes(), tensor.shape
        header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        offset += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".tmp", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for blob in blobs:
            file.write(blob)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".tmp", path)


def read_model(folder):
    """Returns (config, {name: float32 array}) of a model folder, with shards or without."""
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    index = os.path.join(folder, "model.safetensors.index.json")
    if not os.path.exists(index):
        return config, read(os.path.join(folder, "model.safetensors"))
    with open(index) as file:
        shards = sorted(set(json.load(file)["weight_map"].values()))
    tensors = {}
    for shard in shards:
        tensors.update(read(os.path.join(folder, shard)))
    return config, tensors
