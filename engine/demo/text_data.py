"""Token streams by regime from the collected documents, and batches cut from them."""

import json
import lzma
import random

import numpy as np
import torch

from export import BOS, EOS

KINDS = ("code", "prose", "chat", "plan", "recall")


def load_documents(path):
    """{kind: [(group, bytes)]} of one split."""
    documents = {kind: [] for kind in KINDS}
    with lzma.open(path, "rt") as file:
        for line in file:
            entry = json.loads(line)
            documents[entry["kind"]].append((entry["group"], entry["text"].encode()))
    return documents


def stream(documents, seed):
    """All documents of a kind as one stream, groups shuffled but each kept together."""
    groups = {}
    for group, text in documents:
        groups.setdefault(group, []).append(text)
    if len(groups) == 1:
        groups = dict(enumerate([text] for text in next(iter(groups.values()))))
    order = sorted(groups, key=str)
    random.Random(seed).shuffle(order)
    pieces = []
    for group in order:
        for text in groups[group]:
            pieces += [np.array([BOS], np.int16), np.frombuffer(text, np.uint8).astype(np.int16)]
            pieces.append(np.array([EOS], np.int16))
    return torch.from_numpy(np.concatenate(pieces))


class Batches:
    """Windows of `length` + 1 tokens at random places; the first token becomes BOS."""

    def __init__(self, folder, device, seed=1, split="train"):
        documents = load_documents(f"{folder}/{split}.jsonl.xz")
        self.streams = {k: stream(v, seed).to(device) for k, v in documents.items()}
        self.random = random.Random(seed)
        self.device = device

    def bytes(self):
        return {kind: len(values) for kind, values in self.streams.items()}

    def sample(self, mix, batch, length):
        """Returns tokens [batch, length + 1]; `mix` gives each kind's share."""
        kinds = self.random.choices(KINDS, [mix[kind] for kind in KINDS], k=batch)
        rows = []
        for kind in kinds:
            place = self.random.randrange(len(self.streams[kind]) - length - 1)
            rows.append(self.streams[kind][place : place + length + 1])
        tokens = torch.stack(rows).long()
        tokens[:, 0] = BOS
        return tokens

    def windows(self, kind, count, length):
        """`count` windows spread evenly over a stream: the held-out text of an evaluation."""
        values = self.streams[kind]
        places = torch.linspace(0, len(values) - length - 2, count).long().tolist()
        tokens = torch.stack([values[place : place + length + 1] for place in places]).long()
        tokens[:, 0] = BOS
        return tokens
