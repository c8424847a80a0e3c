"""Copies this folder with an NSA draft that proposes fewer tokens, as published EAGLE-3 drafts do.

Answers: what does a smaller draft vocabulary cost in tokens a step? Keeps the rows of the draft's
head of the bytes that are most frequent in the calibration prompts, with d2t and t2d beside them;
everything else is linked. `python fewer_tokens.py 68 OUT`, then `versieve profile --demo OUT`.
"""

import collections
import glob
import json
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def frequencies(split):
    counts = collections.Counter()
    for path in glob.glob(os.path.join(HERE, "prompts", split, "*.txt")):
        with open(path, "rb") as file:
            counts.update(file.read())
    return counts


def share(counts, tokens):
    return sum(counts[token] for token in tokens) / sum(counts.values())


def link_all_but(left_out, source, to):
    os.makedirs(to)
    for name in sorted(os.listdir(source)):
        if name not in left_out:
            os.symlink(os.path.join(source, name), os.path.join(to, name))


def read_tensors(path):
    """Returns {name: (dtype, shape, bytes)}."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    return {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
        for name, entry in header.items()
    }


def write_tensors(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, raw) in tensors.items():
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def trim(tensors, tokens, vocabulary):
    """Only the head's rows of `tokens`, ascending."""
    dtype, (rows, width), raw = tensors["lm_head.weight"]
    bytes_each = len(raw) // rows
    kept = b"".join(raw[token * bytes_each : (token + 1) * bytes_each] for token in tokens)
    offsets = [token - place for place, token in enumerate(tokens)]
    return {
        **tensors,
        "lm_head.weight": (dtype, [len(tokens), width], kept),
        "d2t": ("I64", [len(tokens)], struct.pack(f"<{len(tokens)}q", *offsets)),
        "t2d": ("BOOL", [vocabulary], bytes(token in tokens for token in range(vocabulary))),
    }


def main():
    if len(sys.argv) != 3 or not sys.argv[1].isdigit() or not 1 <= int(sys.argv[1]) <= 256:
        sys.exit("usage: fewer_tokens.py TOKENS OUT, with 1 to 256 tokens")
    count, to = int(sys.argv[1]), sys.argv[2]
    if os.path.exists(to):
        sys.exit(f"{to} exists already")
    seen = frequencies("calibration")
    tokens = sorted(sorted(range(256), key=lambda token: (-seen[token], token))[:count])
    draft = os.path.join(HERE, "nsa", "draft")
    link_all_but({"nsa"}, HERE, to)
    link_all_but({"draft"}, os.path.join(HERE, "nsa"), os.path.join(to, "nsa"))
    os.makedirs(os.path.join(to, "nsa", "draft"))
    with open(os.path.join(draft, "config.json")) as file:
        config = json.load(file)
    tensors = trim(
        read_tensors(os.path.join(draft, "model.safetensors")), tokens, config["vocab_size"]
    )
    write_tensors(os.path.join(to, "nsa", "draft", "model.safetensors"), tensors)
    config["draft_vocab_size"] = count
    with open(os.path.join(to, "nsa", "draft", "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    print(
        f"{count} of {config['vocab_size']} tokens: {share(seen, tokens):.4f} of the calibration "
        f"bytes, {share(frequencies('test'), tokens):.4f} of the test bytes"
    )


if __name__ == "__main__":
    main()
