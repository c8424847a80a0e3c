#!/usr/bin/env python3
"""Compares `versieve tokenize` with the Python packages `tokenizers` and `sentencepiece` on random
texts: every plane of Unicode, code and prose of a checkout, special tokens, and bytes that are no
UTF-8. Not part of the tests: it needs packages that are not Debian's.

    pip install tokenizers sentencepiece
    python3 tests/engine/io/tokenizer/compare.py --count 1000000 build/release/bin/versieve FOLDER...

A FOLDER holds tokenizer.json or tokenizer.model. Of bytes that are no UTF-8 the package is asked
for its pieces of the text with U+FFFD in their place, and for the tokens of each piece's own bytes;
this is asked only where pieces become byte letters at the end and nothing is put before them.
Prints per folder: texts, differences, texts that did not come back; the answer is 1 for any.
"""
import argparse
import codecs
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import sentencepiece
import tokenizers

BLOCKS = [(0x01, 0x7F), (0x80, 0x24F), (0x250, 0x36F), (0x370, 0x5FF), (0x600, 0x8FF),
          (0x900, 0xDFF), (0xE00, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x1DFF), (0x1E00, 0x206F),
          (0x2070, 0x2BFF), (0x2C00, 0x2FFF), (0x3000, 0x33FF), (0x3400, 0x9FFF), (0xA000, 0xABFF),
          (0xAC00, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFF), (0x11000, 0x16FFF),
          (0x17000, 0x1DFFF), (0x1E000, 0x1FFFF), (0x20000, 0x3FFFF), (0x40000, 0xDFFFF),
          (0xE0000, 0x10FFFF)]
ODD = [" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "   \n  ", "\u180e", "\u0085", "\u2028",
       "'s", "'LL", "'Re", "\u2019s", "'\u017f", "1234", "\u0661\u0662", "\u00bd", " 12",
       "A\u0300", "e\u0301\u0323", "\ufffd", "\u200d", "\u200b", "\ufeff", "\u1100\u1161\u11a8"]


class Texts:
    def __init__(self, seed, special):
        self.random = random.Random(seed)
        self.special = special
        root = pathlib.Path(__file__).parents[4]
        files = sorted(root.glob("engine/**/*.cpp"))[:150] + sorted(root.glob("**/README.md"))
        files += sorted(root.glob("engine/demo/prompts/*/*.txt")) + sorted(root.glob("**/*.py"))
        self.sources = [text for file in files if len(text := file.read_text()) > 100]

    def character(self):
        low, high = self.random.choice(BLOCKS)
        code = self.random.randint(low, high)
        return chr(code if not 0xD800 <= code < 0xE000 else 0x20)

    def cutting(self, most):
        source = self.random.choice(self.sources)
        begin = self.random.randrange(len(source))
        return source[begin:begin + self.random.randint(1, most)]

    def part(self):
        kind = self.random.random()
        if kind < 0.4:
            return "".join(self.character() for _ in range(self.random.randint(1, 6)))
        if kind < 0.6:
            return self.random.choice(ODD)
        if kind < 0.7 and self.special:
            return self.random.choice(self.special)
        return self.cutting(12)

    def text(self):
        if self.random.random() < 0.3:
            return self.cutting(120)
        return "".join(self.part() for _ in range(self.random.randint(1, 6)))

    def bytes(self):
        """A quarter is broken: bytes changed, put in or cut off."""
        raw = bytearray(self.text().replace("\0", " ").encode())
        if raw and self.random.random() < 0.25:
            for _ in range(self.random.randint(1, 3)):
                place = self.random.randrange(len(raw))
                if self.random.random() < 0.5:
                    raw[place] = self.random.randint(0x80, 0xFF)
                else:
                    raw.insert(place, self.random.randint(0x80, 0xFF))
            raw = raw[:self.random.randint(1, len(raw))]
        return bytes(raw)


BROKEN = []  # what the reader below replaced, in order


def keep_broken(error):
    BROKEN.append(error.object[error.start:error.end])
    return "\ufffd", error.end


codecs.register_error("keep_broken", keep_broken)


class HuggingFace:
    options = []

    def __init__(self, folder):
        self.tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.special = [t.content for t in self.tokenizer.get_added_tokens_decoder().values()]
        self.letters = byte_letters()
        document = json.loads((folder / "tokenizer.json").read_text())
        steps = document["pre_tokenizer"] or {}
        steps = steps.get("pretokenizers", [steps])
        last = steps[-1]
        self.plain = (last.get("type") == "ByteLevel" and not last["add_prefix_space"]
                      and not document["normalizer"])
        self.added = [token["content"] for token in document["added_tokens"]]

    def ids(self, texts):
        return [e.ids for e in self.tokenizer.encode_batch(texts, add_special_tokens=True)]

    def broken_ids(self, raw):
        """None: not asked of this tokenizer, or of a text with added tokens in it."""
        BROKEN.clear()
        text = raw.decode("utf-8", "keep_broken")
        if not self.plain or any(content in text for content in self.added):
            return None
        originals = iter(BROKEN)
        marked = []  # each character's own bytes; a real U+FFFD has its own too
        position = 0
        for character in text:
            own = character.encode()
            if character == "\ufffd" and not raw.startswith(own, position):
                own = next(originals)
            marked.append(own)
            position += len(own)
        ids = []
        for _, (begin, end) in self.tokenizer.pre_tokenizer.pre_tokenize_str(text):
            piece = b"".join(marked[begin:end])
            word = "".join(self.letters[byte] for byte in piece)
            ids += [token.id for token in self.tokenizer.model.tokenize(word)]
        around = self.tokenizer.encode("", add_special_tokens=True).ids
        before = 1 if around else 0  # templates here put one token before a text, or none
        return around[:before] + ids + around[before:]


class SentencePiece:
    """Knows no special tokens in a text."""

    special = []
    options = ["--no-special"]

    def __init__(self, folder):
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))

    def ids(self, texts):
        return self.model.encode(texts)

    def broken_ids(self, raw):
        return self.model.encode(raw)


def byte_letters():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, further = {}, 0x100
    for byte in range(256):
        if byte in printable:
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(further)
            further += 1
    return letters


def ours(program, folder, raws, options):
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        file.write(b"".join(raw + b"\0" for raw in raws))
        file.flush()
        out = subprocess.run([program, "tokenize", "--model", str(folder), "--in", file.name,
                              "--each", "zero", "--json", *options],
                             stdout=subprocess.PIPE, check=True)
    return json.loads(out.stdout)["texts"]


def is_whole(raw):
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def compare(program, folder, count, seed, shown=5, batch=20000):
    is_hugging_face = (folder / "tokenizer.json").exists()
    reference = (HuggingFace if is_hugging_face else SentencePiece)(folder)
    texts = Texts(seed, reference.special)
    sums = {"whole": 0, "broken": 0, "broken_compared": 0, "differences": 0, "changed": 0}
    for begin in range(0, count, batch):
        raws = [texts.bytes() for _ in range(min(batch, count - begin))]
        answers = ours(program, folder, raws, reference.options)
        assert len(answers) == len(raws)
        whole = [i for i, raw in enumerate(raws) if is_whole(raw)]
        expected = dict(zip(whole, reference.ids([raws[i].decode() for i in whole])))
        for i, (raw, answer) in enumerate(zip(raws, answers)):
            sums["whole" if i in expected else "broken"] += 1
            ids = expected[i] if i in expected else reference.broken_ids(raw)
            sums["broken_compared"] += i not in expected and ids is not None
            sums["changed"] += not answer["same_bytes"]
            if ids is not None and ids != answer["ids"]:
                sums["differences"] += 1
                if sums["differences"] <= shown:
                    print(f"  {raw!r}\n    theirs {ids}\n    ours   {answer['ids']}")
    print(f"{folder}: {count} texts ({sums['broken']} no UTF-8, {sums['broken_compared']} of them "
          f"compared), {sums['differences']} differences, {sums['changed']} not given back", flush=True)
    return sums["differences"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=100000, help="texts a folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("program")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    found = [compare(options.program, f, options.count, options.seed) for f in options.folders]
    sys.exit(1 if any(found) else 0)


main()
