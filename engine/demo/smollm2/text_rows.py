"""Batches for training and measuring: windows of the corpus and rows that the model wrote."""

import glob
import os
import random

import numpy as np
import torch

from held_out import looping

REGIMES = ("prose", "code", "chat", "plan", "recall")
# Shares of a batch's rows; chat stands for the rows that the model wrote.
TARGET_MIX = (0.30, 0.25, 0.25, 0.08, 0.12)
DRAFT_MIX = (0.03, 0.03, 0.90, 0.01, 0.03)


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
        # Rows that the model wrote, and which of their tokens it chose itself and not in a loop.
        self.written, self.chosen, self.order = {}, {}, []
        for split in ("train", "test", "greedy"):
            files = sorted(glob.glob(os.path.join(work, f"samples-{split}-*.npy")))
            if files:
                rows = np.concatenate([np.load(name) for name in files]).astype(np.int32)
                self.written[split] = torch.from_numpy(rows).to(device)
                bits = [np.load(name.replace("samples-", "chosen-")) for name in files]
                chosen = np.unpackbits(np.concatenate(bits), axis=1, count=rows.shape[1])
                chosen = torch.from_numpy(chosen.astype(bool)).to(device)
                loops = [looping(part) for part in self.written[split].split(2048)]
                self.chosen[split] = chosen & ~torch.cat(loops)

    def written_window(self, split, index, length):
        """`length` tokens of whole rows one behind the other, from row `index` on; [2, length]: the
        tokens, and whether the model chose the next one, in no loop."""
        rows, chosen = self.written[split], self.chosen[split]
        count = -(-length // rows.shape[1])
        picked = (torch.arange(count, device=self.device) + index) % len(rows)
        following = chosen[picked].flatten().roll(-1)
        return torch.stack([rows[picked].flatten()[:length], following[:length].int()])

    def next_row(self):
        """Every row comes once before any comes again."""
        if not self.order:
            self.order = list(range(len(self.written["train"])))
            self.random.shuffle(self.order)
        return self.order.pop()

    def one(self, regime, length):
        if regime == "chat":
            return self.written_window("train", self.next_row(), length)
        values = self.corpus["train." + regime]
        at = self.random.randrange(len(values) - length)
        return torch.stack([values[at : at + length], torch.ones_like(values[:length])])

    def answers(self, rows, length, mix):
        """Tokens [rows, length], and where the next token is the model's own choice or a text's."""
        mix = [0.0 if r == "chat" and not self.written else x for r, x in zip(REGIMES, mix)]
        kinds = self.random.choices(REGIMES, mix, k=rows)
        both = torch.stack([self.one(kind, length) for kind in kinds])
        return both[:, 0].long(), both[:, 1] > 0

    def batch(self, rows, length, mix):
        return self.answers(rows, length, mix)[0]

    def held_out(self, regime, rows, length):
        """The first `rows` windows of held-out text, one behind the other."""
        if regime == "chat":
            windows = [self.written_window("test", i * 8, length)[0] for i in range(rows)]
        else:
            values = self.corpus["test." + regime]
            windows = [
                values[at : at + length]
                for at in [i * length % (len(values) - length + 1) for i in range(rows)]
            ]
        return torch.stack(windows).long()

    def held_out_answers(self, split, rows):
        """Whole rows of the test questions, and where the next token is the model's own choice."""
        at = slice(0, rows)
        chosen = self.chosen[split][at].roll(-1, 1)
        chosen[:, -1] = False
        return self.written[split][at].long(), chosen

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
