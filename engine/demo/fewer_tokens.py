"""Copies this folder with an NSA draft that proposes fewer tokens, as published EAGLE-3 drafts do.

Answers: what does a smaller draft vocabulary cost in tokens a step? Keeps the rows of the draft's
head of the bytes that are most frequent in the calibration prompts, with d2t and t2d beside them;
everything else is linked. `python fewer_tokens.py 68 OUT`, then `versieve profile --demo OUT`.
"""

import collections
import glob
import json
import os
import sys

import numpy as np

import tensor_file

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


def trim(tensors, tokens):
    """Only the head's rows of `tokens`, ascending: {name: array or Bf16} for tensor_file.write."""
    head = tensors["lm_head.weight"]
    known = np.zeros(len(head), np.bool_)
    known[tokens] = True
    return {
        **{name: tensor_file.Bf16(array) for name, array in tensors.items()},
        "lm_head.weight": tensor_file.Bf16(head[tokens]),
        "d2t": np.array(tokens, np.int64) - np.arange(len(tokens)),
        "t2d": known,
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
    config, tensors = tensor_file.read_model(draft)
    tensor_file.write(
        os.path.join(to, "nsa", "draft", "model.safetensors"),
        trim(tensors, tokens),
        {"format": "pt"},
    )
    config["draft_vocab_size"] = count
    with open(os.path.join(to, "nsa", "draft", "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    print(
        f"{count} of {config['vocab_size']} tokens: {share(seen, tokens):.4f} of the calibration "
        f"bytes, {share(frequencies('test'), tokens):.4f} of the test bytes"
    )


if __name__ == "__main__":
    main()
