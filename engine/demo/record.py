"""Writes RECORD.md from record.json and steps.csv: the training and its figures as tables."""

import csv
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
REGIMES = ("chat", "plan", "prose", "code")
KINDS = ("code", "prose", "chat", "plan", "recall")


def table(head, rows):
    lines = ["| " + " | ".join(map(str, head)) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def curve(steps, part, matches="match by step 1 … 7", count=14):
    rows = [row for row in steps if row["part"] == part]
    picked = [rows[round(i * (len(rows) - 1) / (count - 1))] for i in range(count)]
    head = ["step", "seconds", "tokens, M", "length", "loss"] + (
        [matches] if part == "draft" else []
    )
    found = []
    for row in picked:
        cells = [
            row["step"],
            row["seconds"],
            f"{int(row['tokens']) / 1e6:.1f}",
            row["length"],
            f"{float(row['loss']):.3f}",
        ]
        found.append(cells + ([row["match"].strip("[]")] if part == "draft" else []))
    return table(head, found)


def held_out_curve(steps):
    rows = [row for row in steps if row["held_out"]]
    found = []
    for row in rows:
        bits = json.loads(row["held_out"].replace("'", '"'))
        found.append([row["seconds"]] + [f"{bits[kind]:.3f}" for kind in KINDS])
    return table(["seconds", *KINDS], found)


def bits_table(record):
    rows = []
    for kind in KINDS:
        for name, spans in record["bits_per_byte"][kind].items():
            rows.append([kind, name, *(f"{value:.3f}" for value in spans.values())])
    spans = next(iter(record["bits_per_byte"]["code"].values()))
    return table(["text", "attention", *spans], rows)


def mean(values):
    values = [value for value in values if value is not None]
    return f"{sum(values) / len(values):.2f}" if values else "–"


def chain_tables(record):
    forced, made = record["teacher_forced"], record.get("generated", {})
    text = "Teacher-forced on held-out text, chain of 7, mean tokens a step, bonus counted:\n\n"
    rows = []
    for bucket in forced["code"]["tokens_per_step"]:
        values = [forced[regime]["tokens_per_step"][bucket] for regime in REGIMES]
        rows.append([bucket, *(f"{value:.2f}" for value in values), mean(values)])
    text += table(["context", *REGIMES, "mean"], rows)
    rows = []
    for bucket, entries in made.items():
        cells = [
            f"{entries[r].get('chain', float('nan')):.2f} ({entries[r]['looping']} of {entries[r]['samples']})"
            for r in REGIMES
        ]
        rows.append([bucket, *cells, mean([entries[r].get("chain") for r in REGIMES])])
    if made:
        text += "\nGreedy generation, looping samples left out (how many of all, in brackets):\n\n"
        text += table(["context", *REGIMES, "mean"], rows)
    text += "\nMatch by unrolled step, teacher-forced, all places:\n\n"
    rows = [
        [kind, forced[kind]["target_top1"], *(f"{x:.3f}" for x in forced[kind]["match_by_step"])]
        for kind in KINDS
    ]
    return text + table(["text", "target's own top-1", *range(1, 8)], rows)


def tree_table(record, roots):
    sizes = ("chain", "tree_16", "tree_32", "tree_64")
    rows = []
    for bucket, entries in record["generated"].items():
        for regime in REGIMES:
            found = entries[regime].get(roots)
            if found:
                rows.append([bucket, regime, *(f"{found[size]:.2f}" for size in sizes)])
        values = [entries[r].get(roots) for r in REGIMES]
        rows.append(
            [bucket, "**mean**", *(mean([v and v[size] for v in values]) for size in sizes)]
        )
    return table(["context", "regime", "chain of 7", "16 nodes", "32 nodes", "64 nodes"], rows)


def tree_section(record):
    if "generated" not in record:
        return ""
    return f"""### Trees against the chain
Same roots for all four columns: the ends of the held-out contexts (real text), looping samples left out.

{tree_table(record, 'real_root')}
Roots at 0, 32, … 160 bytes into the greedy continuation of the same contexts:

{tree_table(record, 'roots')}
Share of those roots at which the chain of 7 is accepted to depth 1 … 7:

{depth_table(record)}
"""


def depth_table(record):
    rows = []
    for bucket, entries in record.get("generated", {}).items():
        for regime in REGIMES:
            found = entries[regime].get("accepted_by_depth")
            if found:
                rows.append([bucket, regime, *(f"{x:.2f}" for x in found)])
    return table(["context", "regime", *range(1, 8)], rows)


def main():
    with open(os.path.join(HERE, "record.json")) as file:
        record = json.load(file)
    with open(os.path.join(HERE, "steps.csv"), newline="") as file:
        steps = list(csv.DictReader(file))
    with open(os.path.join(HERE, "record_notes.md")) as file:
        notes = dict(part.split("\n", 1) for part in file.read().split("\n=== ")[1:])
    overlap = record["adjacent_overlap"]
    layers = range(len(overlap["code"]))
    options, target, draft = record["options"], record["target"], record["draft"]
    text = f"""# Record of the demo NSA pair

Written by `record.py` from `record.json` and `steps.csv`. {record['date']}, one {record['device']}, PyTorch {record['versions']['torch']}, Python
{record['versions']['python']}, seed {options['seed']}, one run, no sweep.

| part | seconds of training | steps | tokens |
|---|---|---|---|
| target | {target['seconds']:.0f} | {target['steps']} | {target['tokens'] / 1e6:.1f} M |
| draft | {draft['seconds']:.0f} | {draft['steps']} | {draft['tokens'] / 1e6:.1f} M |

{notes['summary']}
## Target
Loss in bits per byte on training text (first {options['first_share']:.0%} of the time at length 2,048, last {options['far_share']:.0%} at 16,384, else 4,096):

{curve(steps, 'target')}
Held out while training, 16 windows of 4,096, bits per byte:

{held_out_curve(steps)}
### Bits per byte by place
Eight held-out windows of 16,384 a kind. `full`: every block selected in the selected branch, same weights; FRFR and FRRR: reuse layers
inherit the newest refresh layer's blocks.

{bits_table(record)}
### Selected blocks shared by adjacent queries
|I(q) ∩ I(q+1)| / 16 beyond place 1,024, by layer:

{table(['text', *layers], [[kind, *overlap[kind]] for kind in KINDS])}
{notes['target']}
## Draft
Loss in nats (soft cross-entropy, mean of the seven steps):

{curve(steps, 'draft')}
## Acceptance
{notes['method']}
{chain_tables(record)}
{tree_section(record)}{notes['weak']}"""
    with open(os.path.join(HERE, "RECORD.md"), "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
