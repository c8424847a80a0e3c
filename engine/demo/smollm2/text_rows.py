"""Batches for training and measuring: windows of the corpus and rows that the model wrote."""

import glob
import os
import random

import numpy as np
import torch

REGIMES = ("prose", "code", "chat", "plan", "recall")
# Shares of a batch's rows; chat stands for the rows that the model wrote.
TARGET_MIX = (0.30, 0.25, 0.25, 0.08, 0.12)
DRAFT_MIX = (0.08, 0.08, 0.76, 0.03, 0.05)


class TextRows:
    def __init__(self, data, work, device, vocab, seed=1):
        """`data` is data.npz, `work` the folder of samples; without samples there is no chat."""
        self.device, self.random = device, random.Random(seed)
        arrays = np.load(data)
        self.corpus = {
            name: torch.from_numpy(arrays[name].astype(np.int32) % vocab).to(device)
            for name in arrays.files
            if not name.startswith("ask.")
        }
        self.written = {}
        for split in ("train", "test"):
            files = sorted(glob.glob(os.path.join(work, f"samples-{split}-*.npy")))
            if files:
                rows = np.concatenate([np.load(name) for name in files]).astype(np.int32)
                self.written[split] = torch.from_numpy(rows).to(device)

    def written_window(self, split, index, length):
        """`length` tokens of whole rows one behind the other, from row `index` on."""
        rows = self.written[split]
        count = -(-length // rows.shape[1])
        picked = (torch.arange(count, device=self.device) + index) % len(rows)
        return rows[picked].flatten()[:length]

    def one(self, regime, length):
        if regime == "chat":
            return self.written_window("train", self.random.randrange(1 << 30), length)
        values = self.corpus["train." + regime]
        at = self.random.randrange(len(values) - length)
        return values[at : at + length]

    def batch(self, rows, length, mix):
        mix = [0.0 if r == "chat" and not self.written else x for r, x in zip(REGIMES, mix)]
        kinds = self.random.choices(REGIMES, mix, k=rows)
        return torch.stack([self.one(kind, length) for kind in kinds]).long()

    def held_out(self, regime, rows, length):
        """The first `rows` windows of held-out text, one behind the other."""
        if regime == "chat":
            windows = [self.written_window("test", i * 8, length) for i in range(rows)]
        else:
            values = self.corpus["test." + regime]
            windows = [
                values[at : at + length]
                for at in [i * length % (len(values) - length + 1) for i in range(rows)]
            ]
        return torch.stack(windows).long()

    def regimes(self):
        return [r for r in REGIMES if r != "chat" or self.written]

    def commonest(self, count, vocab):
        """The `count` tokens that come oftenest, the model's own rows weighing most, ascending."""
        found = torch.zeros(vocab, device=self.device)
        for name, values in self.corpus.items():
            if name.startswith("train."):
                found += 0.3 * torch.bincount(values, minlength=vocab)
        if self.written:
            found += torch.bincount(self.written["train"].flatten(), minlength=vocab)
        return found.topk(count).indices.sort().values
