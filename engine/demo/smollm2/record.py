"""Writes RECORD.md from record.json: how the pair was trained on one GPU, and what came out."""

import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
REGIMES = ("prose", "code", "chat", "plan", "recall")
STATES = (
    ("zero_shot", "before training"),
    ("nsa", "NSA parameters"),
    ("lora", "and LoRA: ships"),
)
LENGTHS = (4096, 8192)
CURVE_ROWS = 16
# --head-seconds and --draft-seconds of the second training.
SECOND_BEGAN, SECOND_TOTAL = 150, 430


def table(head, rows):
    lines = ["| " + " | ".join(map(str, head)) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def thinned(rows, count=CURVE_ROWS):
    if len(rows) <= count:
        return rows
    return [rows[round(i * (len(rows) - 1) / (count - 1))] for i in range(count)]


def figures_of(record, state):
    return record[state]["held_out"] if "held_out" in record[state] else record[state]


def states_table(record):
    """Mean over the regimes, at each length: dense, sparse, same choice."""
    rows = []
    for length in LENGTHS:
        for state, label in STATES:
            found = figures_of(record, state)
            spans = [found[f"{regime}@{length}"][f"0-{length}"] for regime in REGIMES]
            means = [sum(span[i] for span in spans) / len(spans) for i in range(3)]
            dense, sparse, same = means
            rows.append([length, label, f"{dense:.4f}", f"{sparse:.4f}", f"{sparse - dense:+.4f}"])
            rows[-1].append(f"{same:.3f}")
    return table(["length", "parameters trained", "dense", "sparse", "change", "same token"], rows)


def position_table(record):
    """Change of the loss by position and regime of what ships."""
    found, rows = figures_of(record, record["chosen"]), []
    for length in LENGTHS:
        for regime in REGIMES:
            spans = found[f"{regime}@{length}"]
            dense, sparse, same = spans[f"0-{length}"]
            cells = [length, regime, f"{dense:.3f}", f"{sparse:.3f}", f"{same:.3f}"]
            edges = ("0-1024", "1024-2048", "2048-4096", "4096-8192")
            cells += [
                f"{spans[edge][1] - spans[edge][0]:+.3f}" if edge in spans else "–"
                for edge in edges
            ]
            rows.append(cells)
    head = ["length", "text", "dense", "sparse", "same token", "0–1K", "1–2K", "2–4K", "4–8K"]
    return table(head, rows)


def target_curve(record):
    rows = [
        [step, f"{seen / 1e6:.2f}", f"{seconds:.0f}", length, *(f"{x:.4f}" for x in figures)]
        for step, seen, seconds, length, *figures in record[record["chosen"]]["curve"]
    ]
    head = ["step", "tokens, M", "seconds", "length", "KL", "same token", "routing KL"]
    head += ["mass held", "most possible", "free mass", "gradient"]
    return table(head, rows)


def chain_table(found):
    head = ["text", "chain of 7", *(f"step {i}" for i in range(1, 8))]
    rows = [
        [name, f"{x['chain']:.2f}", *(f"{share:.3f}" for share in x["match"])]
        for name, x in found.items()
    ]
    return table(head, rows)


def trial_table(record):
    trial = record["head_trial"]
    rows = [
        [
            arm,
            found["steps"],
            f"{found['mean_chain']:.3f}",
            "goes on" if arm == trial["chosen"] else "",
        ]
        for arm, found in trial.items()
        if arm != "chosen"
    ]
    return table(["output rows", "steps", "chain of 7, mean", ""], rows)


def draft_curve(draft):
    rows = [
        [step, f"{seen / 1e6:.1f}", f"{seconds:.0f}", length, steps, f"{loss:.3f}"]
        + [f"{match[0]:.3f}", f"{match[steps - 1]:.3f}"]
        for step, seen, seconds, length, steps, loss, *match in thinned(draft["curve"])
    ]
    head = ["step", "tokens, M", "seconds", "length", "unrolled", "loss", "match, first", "last"]
    return table(head, rows)


def answers_tables(entries):
    """What the built command gave on held-out questions, one table a device and format."""
    out = ""
    for entry in entries:
        out += (
            f"\n{entry['date']}, {entry['device']}, {entry['dtype']}, {entry['prompts']} questions, "
            f"{entry['tokens']} tokens at most:\n\n"
        )
        rows = [
            [f"{x['temperature']:g}", f"`{x['strategy']}`", f"{x['looping']} of {x['answers']}"]
            + [x["steps"], f"{x['tokens_a_step']:.2f}", f"{x['tokens_per_s']:.1f}"]
            for x in entry["rows"]
        ]
        head = ["temperature", "strategy", "looping", "steps", "tokens a step", "tokens/s"]
        out += table(head, rows)
    return out


def page(record):
    where, sample, draft = (record[name] for name in ("environment", "sample", "draft"))
    chosen, second = record[record["chosen"]], record["second"]
    return f"""# Record of the SmolLM2 pair

Written by `record.py` from `record.json`: {where["date"]}, one {where["device"]}, PyTorch
{where["torch"]}, Python {where["python"]}, one run, no sweep; the commands are in README.md.

| part | seconds | steps | tokens |
|---|---|---|---|
| answers sampled | {sample["seconds"]:.0f} | – | {sample["train_tokens"] / 1e6:.1f} M |
| target, adapter | {chosen["curve"][-1][2]:.0f} | {chosen["steps"]} | {chosen["tokens"] / 1e6:.1f} M |
| draft head | {draft["seconds"]:.0f} | {draft["step"]} | {draft["tokens"] / 1e6:.1f} M |
| answers sampled once more, as many as fit | {second["sample"]["seconds"]:.0f} | – | {second["sample"]["train_tokens"] / 1e6:.1f} M |
| draft head, second training | {second["draft"]["seconds"] - SECOND_BEGAN:.0f} | {second["draft"]["step"]} | {second["draft"]["tokens"] / 1e6:.1f} M |

Compiling is not in these seconds; the target's are those of its last curve point. The sampler wrote
{sample["tokens_per_s"]:,.0f} tokens a second, {sample["batch"]} rows at once.

## Target
Cross-entropy in nats a token on held-out text, 65,536 tokens of each regime and length, and how
often dense and sparse model hold the same token for the likeliest; means over the five regimes.
LoRA of rank 32 ships because it lowers the loss at 8,192 tokens by 0.01 or more against NSA
parameters alone, trained for the same time on the same batches.

{states_table(record)}
What ships, by regime and position (change of the loss, sparse less dense). `chat` is the model's
own sampled answers, conversations one behind the other:

{position_table(record)}
Training: KL to the dense model, share of the same likeliest token, KL of the blocks' importance to
the mass of full attention, the free mass that the chosen blocks hold and the most they could, the
free mass itself (first, last and own blocks left out), the gradient's norm:

{target_curve(record)}
## Draft
Which output rows (200 steps each): the target's embedding rows as they are, with an addition of
rank 128, or trained in full. A costlier kind had to win by 0.02 and 0.06 tokens a step.

{trial_table(record)}
Held out, at the end: how often the head's first choice is the target's at each of seven unrolled
steps along the text, and the tokens that a chain of seven would take a step, the target's own
token counted. The text stands still: `chat` is the model's own answers at temperature 0.7, the
others are other people's text, which the target would not have written.

{chain_table(record["draft_held_out"]["held_out"])}
In this run the head's final norm was by mistake the target's own tensor, so training moved the
teacher's final norm too: afterwards teacher and target had the same likeliest token at 90 % of the
places of sampled answers and 94 % of greedy ones, and the shares above are against the teacher.
`head_model.py` copies the norm since. Training:

{draft_curve(draft)}
That head, with the target's norm in the place of the moved one, gave on held-out questions
(`answers.py`: the built command, tokens a step with the target's own counted, looping answers left
out):
{answers_tables(record["answers_first_head"])}
### Second training, by the right teacher: ships
It began at that head, as if {SECOND_BEGAN} of {SECOND_TOTAL} seconds of the schedule had made it;
the optimizer began anew. Held out, against the target:

{chain_table(second["draft_held_out"]["held_out"])}
Training (seconds count from {SECOND_BEGAN}):

{draft_curve(second["draft"])}
## Answers
The same held-out questions, by the head that ships:
{answers_tables(record.get("answers", []))}"""


def main():
    with open(os.path.join(HERE, "record.json")) as file:
        record = json.load(file)
    with open(os.path.join(HERE, "RECORD.md"), "w") as file:
        file.write(page(record).rstrip() + "\n")


if __name__ == "__main__":
    main()
