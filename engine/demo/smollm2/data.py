"""Makes the training data: the corpus in tokens, and conversations with the answers left open.

    python3 data.py CORPUS TOKENIZER OUT [--seed 2 --rows 73728]

CORPUS is the folder of ../corpus.py, TOKENIZER the tokenizer.json that convert.py writes. OUT gets
`data.npz`: one uint16 array for each split and regime of the corpus, and for each split the
conversations, a row of tokens each: forced tokens, and at every place where the model is to answer
the mark 65535. After the model's end of turn the row goes on behind the mark. Another seed asks
other questions, of larger pools, and as many rows as are asked for. Needs the packages numpy and
tokenizers.
"""

import argparse
import collections
import json
import lzma
import os
import random

import numpy as np
from question_pools import pools
from tokenizers import Tokenizer

ANSWER = 65535
END_OF_TEXT = 0
CORPUS_TOKENS = {
    "train": {"prose": 3_300_000, "code": 2_600_000, "plan": 500_000, "recall": 700_000},
    "test": dict.fromkeys(("prose", "code", "plan", "recall"), 200_000),
}
DEFAULT_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
OPEN = "<|im_end|>\n<|im_start|>assistant\n"
# name -> (rows, tokens of a row's generation, tokens of a row's queue, tokens of a text's opening)
SETS = {
    "train": (26_624, 1024, 480, 0),
    "test": (512, 1024, 480, 0),
    "far": (128, 4096, 3_600, 3_400),
}


def corpus_tokens(corpus, tokenizer):
    """{split.regime: uint16 tokens}, every document behind an end-of-text token."""
    out = {}
    for split, caps in CORPUS_TOKENS.items():
        documents = collections.defaultdict(list)
        with lzma.open(os.path.join(corpus, split + ".jsonl.xz"), "rt") as file:
            for line in file:
                entry = json.loads(line)
                documents[entry["kind"]].append(entry["text"][:400_000])
        for kind, cap in caps.items():
            random.Random(kind).shuffle(documents[kind])
            ids = []
            for start in range(0, len(documents[kind]), 32):
                texts = documents[kind][start : start + 32]
                for encoded in tokenizer.encode_batch(texts, add_special_tokens=False):
                    ids += [END_OF_TEXT, *encoded.ids]
                if len(ids) > cap:
                    break
            out[f"{split}.{kind}"] = np.array(ids[:cap], np.uint16)
            print(split, kind, len(ids[:cap]), flush=True)
    return out


class Conversations:
    """Rows of one split; strings are tokenised all at once, passages come from the corpus."""

    def __init__(self, split, texts, tokenizer, seed):
        self.pools, self.texts = pools(split, split == "train" and seed > 1), texts
        self.random, self.tokenizer = random.Random(f"{split}/{seed}"), tokenizer
        self.known = {}

    def passage(self, kind, least, most):
        values = self.texts[kind]
        size = self.random.randint(least, most)
        at = self.random.randrange(len(values) - size)
        return [int(x) for x in values[at : at + size] if x > 2]

    def pick(self, name):
        s, t = self.random.sample(self.pools["subjects"], 2)
        text = self.random.choice(self.pools[name]).format(s=s, t=t)
        return text[0].upper() + text[1:]

    def asked(self, opening):
        """A user turn as text and token pieces, its first words being `opening`."""
        draw = self.random.random()
        if draw < 0.78:
            return [opening + self.pick("forms") + OPEN]
        kind = self.random.choice(("prose", "code"))
        form = self.pick("text_forms" if kind == "prose" else "code_forms")
        return [opening + form + "\n\n", self.passage(kind, 40, 220), OPEN]

    def first(self):
        draw = self.random.random()
        system = DEFAULT_SYSTEM if draw < 0.8 else self.random.choice(self.pools["systems"])
        opening = f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n"
        return self.asked(opening)

    def next(self):
        opening = "\n<|im_start|>user\n"
        if self.random.random() < 0.55:
            return [opening + self.pick("follow_ups") + OPEN]
        return self.asked(opening)

    def row(self, size, opening):
        """Pieces of one row until about `size` tokens; texts (an eighth) have no turns."""
        pieces, room = [], size
        kind = self.random.choice(("prose", "code", "plan", "recall"))
        if opening and self.random.random() < 0.75:
            return [[END_OF_TEXT, *self.passage(kind, opening, opening)], None]
        if opening:
            head = "<|im_start|>user\n" + self.pick("text_forms") + "\n\n"
            return [head, self.passage("prose", opening, opening), OPEN, None]
        if self.random.random() < 0.14:
            while room > 0:
                text = self.passage(kind, 40, 200)
                pieces += [[END_OF_TEXT, *text], None]
                room -= len(text)
            return pieces
        turn = self.first()
        while room > 0:
            pieces += [*turn, None]
            room -= sum(len(x) if isinstance(x, list) else len(x) // 4 for x in turn)
            turn = self.next()
        return pieces

    def rows(self, count, size, opening):
        """uint16 [count, size], filled up with end-of-text."""
        plans = [self.row(size, opening) for _ in range(count)]
        texts = sorted({x for plan in plans for x in plan if isinstance(x, str)})
        encoded = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        known = dict(zip(texts, (x.ids for x in encoded)))
        out = np.zeros((count, size), np.uint16)
        for i, plan in enumerate(plans):
            ids = []
            for piece in plan:
                if piece is None:
                    ids.append(ANSWER)
                else:
                    ids += known[piece] if isinstance(piece, str) else piece
            out[i, : min(size, len(ids))] = ids[:size]
        return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("corpus", "tokenizer", "out"):
        parser.add_argument(name)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=SETS["train"][0], help="of training questions")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    tokenizer = Tokenizer.from_file(options.tokenizer)
    arrays = corpus_tokens(options.corpus, tokenizer)
    for name, (count, _, size, opening) in SETS.items():
        split, seed = ("train", options.seed) if name == "train" else ("test", 1)
        count = options.rows if name == "train" else count
        texts = {key.split(".")[1]: x for key, x in arrays.items() if key.startswith(split)}
        talk = Conversations(split, texts, tokenizer, seed)
        arrays["ask." + name] = talk.rows(count, size, opening)
        print("conversations", name, arrays["ask." + name].shape, flush=True)
    np.savez(os.path.join(options.out, "data.npz"), **arrays)


if __name__ == "__main__":
    main()
