"""Cuts the held-out prompts (regime × length × split) out of the collected documents."""

import json
import os
import random

REGIMES = ("chat", "plan", "prose", "code")
LENGTHS = {
    "calibration": (700, 1000, 4000, 8000, 16000),
    "test": (400, 800, 1400, 1000, 1000, 4000, 4000, 8000, 8000, 16000),
}


def cut(text, length, rng):
    """A piece of `length` bytes that starts at a line or paragraph and ends within a word."""
    starts = [0] + [i + 2 for i in range(len(text) - length - 2) if text[i : i + 2] == "\n\n"]
    start = rng.choice([place for place in starts if place + length <= len(text)] or [0])
    return text[start : start + length]


def write(folder, documents):
    """Writes prompts/<split>/<regime>-<length>-<i>.txt and prompts/index.json."""
    index = []
    for split, lengths in LENGTHS.items():
        os.makedirs(os.path.join(folder, split), exist_ok=True)
        for regime in REGIMES:
            rng = random.Random(f"prompts/{split}/{regime}")
            pool = [e for e in documents if e["split"] == split and e["kind"] == regime]
            used = set()
            for number, length in enumerate(lengths):
                fitting = [e for e in pool if len(e["text"]) >= length and e["group"] not in used]
                if not fitting:
                    fitting = [
                        e for e in pool if len(e["text"]) >= length and e["name"] not in used
                    ]
                entry = rng.choice(sorted(fitting, key=lambda e: e["name"]))
                used |= (
                    {entry["name"]}
                    if regime in ("chat", "plan")
                    else {entry["name"], entry["group"]}
                )
                text = cut(entry["text"], length, rng)
                name = f"{split}/{regime}-{length}-{number}.txt"
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
                index.append(
                    {
                        "file": name,
                        "regime": regime,
                        "split": split,
                        "bytes": len(text),
                        "source": f"{entry['group']} {entry['name']}",
                        "licence": entry["licence"],
                    }
                )
    with open(os.path.join(folder, "index.json"), "w") as file:
        json.dump(index, file, indent=1)
        file.write("\n")
