#!/usr/bin/env python3
"""A small dense draft of a dense target, untrained: the target's first layers, last norm and head.

    python3 early_exit.py MODEL [--layers 6]

Reads MODEL/config.json and its safetensors and writes MODEL/draft, a model folder of its own whose
tensors are the target's, bit for bit. Nothing is trained: the head sees a stream that the layers
left out would have changed, so it guesses worse than a draft that was taught. It serves where a
method needs a dense draft with a cache of its own (SpecAttn, chains that are sampled). Needs
nothing beyond Python's own library.
"""

import argparse
import json
import os
import re
import shutil
import struct
import sys
import tempfile

LAYERS = 6
INDEX = "model.safetensors.index.json"
LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
PIECE = 1 << 22


class BadModel(Exception):
    """The folder is not one to cut a draft from; the message is one sentence for the user."""


class WrongCount(BadModel):
    """That many layers do not leave a draft."""


def read_json(path):
    with open(path, encoding="utf-8") as file:
        try:
            found = json.load(file)
        except ValueError as error:
            raise BadModel(f"{path}: this is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise BadModel(f"{path}: this is no JSON object")
    return found


def weight_files(model):
    """The paths of the target's weights."""
    index = os.path.join(model, INDEX)
    if not os.path.exists(index):
        return [os.path.join(model, "model.safetensors")]
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(x, str) for x in names.values()):
        raise BadModel(f"{index}: there is no weight_map of names")
    return [os.path.join(model, name) for name in sorted(set(names.values()))]


def tensors_of(path):
    """{name: (entry of the header, place of its first byte, bytes)} of one safetensors file."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
        if length > size - 8:
            raise BadModel(f"{path}: the file ends within its header")
        try:
            header = json.loads(file.read(length))
            header.pop("__metadata__", None)
            found = {}
            for name, entry in header.items():
                begin, end = entry["data_offsets"]
                found[name] = (entry, 8 + length + begin, end - begin)
        except (ValueError, AttributeError, TypeError, KeyError):
            raise BadModel(f"{path}: the header is not one of safetensors") from None
    if any(at + count > size or count < 0 for _, at, count in found.values()):
        raise BadModel(f"{path}: the file ends within a tensor")
    return found


def is_kept(name, layers):
    layer = LAYER.search(name)
    return layer is None or int(layer[1]) < layers


def draft_config(config, layers):
    """The target's, with fewer layers; lists of one entry a layer (layer_types) are cut too."""
    every = config["num_hidden_layers"]
    cut = {
        key: value[:layers] if isinstance(value, list) and len(value) == every else value
        for key, value in config.items()
        if key.startswith(("layer_", "no_rope_"))
    }
    return {**config, **cut, "num_hidden_layers": layers}


def checked_config(model, layers):
    path = os.path.join(model, "config.json")
    config = read_json(path)
    every = config.get("num_hidden_layers")
    if type(every) is not int:
        raise BadModel(f"{path}: num_hidden_layers is no whole number")
    if "nsa" in config:
        raise BadModel(f"{path}: this is a sparse target, and a dense draft is cut from a dense one")
    if not 1 <= layers < every:
        raise WrongCount(f"a draft of {layers} layers is not cut from a target of {every}")
    return config


def write_weights(path, sources):
    """One safetensors file of the tensors {name: (file, entry, place, bytes)}, copied as they are."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (_, entry, _, count) in sources.items():
        header[name] = {**entry, "data_offsets": [offset, offset + count]}
        offset += count
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as target:
        target.write(struct.pack("<Q", len(text)) + text)
        for source, _, at, count in sources.values():
            with open(source, "rb") as file:
                file.seek(at)
                while count:
                    piece = file.read(min(count, PIECE))
                    if not piece:
                        raise BadModel(f"{source}: the file ends within a tensor")
                    target.write(piece)
                    count -= len(piece)
        target.flush()
        os.fsync(target.fileno())


def write_draft(model, layers=LAYERS):
    """Writes MODEL/draft whole or not at all, and returns its path; what is there is left alone."""
    draft = os.path.join(model, "draft")
    if os.path.lexists(draft):
        raise BadModel(f"{draft}: it is there already; move it away first")
    config = checked_config(model, layers)
    sources = {}
    for path in weight_files(model):
        for name, (entry, at, count) in tensors_of(path).items():
            if is_kept(name, layers):
                sources[name] = (path, entry, at, count)
    room = tempfile.mkdtemp(prefix=".draft-", dir=model)
    try:
        os.chmod(room, 0o755)
        with open(os.path.join(room, "config.json"), "w", encoding="utf-8") as file:
            json.dump(draft_config(config, layers), file, indent=1)
            file.write("\n")
        write_weights(os.path.join(room, "model.safetensors"), sources)
        os.rename(room, draft)
    finally:
        shutil.rmtree(room, ignore_errors=True)
    return draft


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="folder of a dense target")
    parser.add_argument("--layers", type=int, default=LAYERS, help="of the draft (%(default)s)")
    options = parser.parse_args()
    try:
        print(f"{write_draft(options.model, options.layers)}: the first {options.layers} layers")
    except (BadModel, FileNotFoundError, NotADirectoryError) as error:
        print(f"early_exit.py: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, WrongCount) else 3)
    except OSError as error:
        print(f"early_exit.py: {error}", file=sys.stderr)
        sys.exit(4)


if __name__ == "__main__":
    main()
