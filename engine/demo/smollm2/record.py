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
THIRD_STATES = (
    ("draft_before", "the second head"),
    ("draft_held_out", "the third"),
    ("draft_stored", "in eight bits: ships"),
)
SPLITS = (("test", "0.7"), ("greedy", "0"))
STRETCHES = (
    ("none", "none"),
    ("linear", "linear 2"),
    ("yarn", "YaRN 2: `--context 16384`"),
    ("llama3", "llama3 2"),
    ("theta", "a larger theta"),
)
SPANS = ("0-4096", "4096-8192", "8192-16384")


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


def held_answers_table(states):
    """Held-out answers standing still: agreement of a place, and chains from every place."""
    rows = []
    for split, temperature in SPLITS:
        for label, found in states:
            x = found[split]
            cells = [f"{x[name][0]:.3f}" for name in ("best", "overlap", "coupled")]
            for name in ("text", "best", "coupled"):
                cells.append(f"{x['chain_' + name]:.2f} / {x['chain_' + name + '_4']:.2f}")
            rows.append([temperature, label, *cells])
    head = ["answers at", "draft", "same likeliest", "overlap", "same draw"]
    head += ["chain against the text, 7 / 4", "the target's likeliest", "the target's draw"]
    return table(head, rows)


def walk_table(walk):
    rows = []
    for split, temperature in SPLITS:
        for part, x in walk[split].items():
            cells = [f"{x[name][0]:.2f} / {x[name][1]:.2f}" for name in ("text", "best", "coupled")]
            rows.append([temperature, part, x["places"], *cells])
    head = ["answers at", "places", "", "against the text"]
    return table([*head, "the target's likeliest", "the target's draw"], rows)


def dense_answers_table(dense):
    rows = []
    for split, temperature in SPLITS:
        x = dense["answers"][split]
        cells = [f"{x[name][0]:.3f}" for name in ("best", "overlap", "coupled")]
        cells += [f"{x['chain_' + name + '_4']:.2f}" for name in ("text", "best", "coupled")]
        rows.append([temperature, *cells])
    head = ["answers at", "same likeliest", "overlap", "same draw"]
    head += ["chain of 4 against the text", "the target's likeliest", "the target's draw"]
    return table(head, rows)


def dense_draft_curve(draft):
    rows = [
        [step, f"{seen / 1e6:.1f}", f"{seconds:.0f}", f"{loss:.3f}", f"{match:.3f}"]
        for step, seen, seconds, loss, match in thinned(draft["curve"], 10)
    ]
    return table(["step", "tokens, M", "seconds", "loss", "same likeliest"], rows)


def stretch_table(found):
    """Nats a token of the dense model and of the sparse target, by regime and position."""
    rows = []
    for kind, label in STRETCHES:
        for side, name in enumerate(("dense", "sparse")):
            cells = []
            for regime in REGIMES:
                spans = [f"{found[kind][regime][span][side]:.2f}" for span in SPANS]
                cells.append(" / ".join(spans))
            rows.append([label, name, *cells])
    return table(["angles", "model", *REGIMES], rows)


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
    chosen, second, third = record[record["chosen"]], record["second"], record["third"]
    dense, tried = record["dense_draft"], record["dense_draft"]["tried"]
    walk = record["walk"]
    overlap = {arm: x["answers"]["test"]["overlap"][0] for arm, x in tried.items()}
    states = [(label, third[name]["answers"]) for name, label in THIRD_STATES]
    stored = third["draft_stored"]["held_out"]
    return f"""# Record of the SmolLM2 pair

Written by `record.py` from `record.json`: {where["date"]}, one {where["device"]}, PyTorch
{where["torch"]}, Python {where["python"]}, three trainings one behind the other, no sweep; the
commands are in README.md.

| part | seconds | steps | tokens |
|---|---|---|---|
| answers sampled | {sample["seconds"]:.0f} | – | {sample["train_tokens"] / 1e6:.1f} M |
| target, adapter | {chosen["curve"][-1][2]:.0f} | {chosen["steps"]} | {chosen["tokens"] / 1e6:.1f} M |
| draft head | {draft["seconds"]:.0f} | {draft["step"]} | {draft["tokens"] / 1e6:.1f} M |
| answers sampled once more, as many as fit | {second["sample"]["seconds"]:.0f} | – | {second["sample"]["train_tokens"] / 1e6:.1f} M |
| draft head, second training | {second["draft"]["seconds"] - SECOND_BEGAN:.0f} | {second["draft"]["step"]} | {second["draft"]["tokens"] / 1e6:.1f} M |
| answers sampled for the third, other questions | {third["sample"]["seconds"]:.0f} | – | {third["sample"]["train_tokens"] / 1e6:.1f} M |
| draft head, third training: ships | {third["draft"]["seconds"]:.0f} | {third["draft"]["step"]} | {third["draft"]["tokens"] / 1e6:.1f} M |
| dense draft: ships | {dense["seconds"]:.0f} | {dense["step"]} | {dense["tokens"] / 1e6:.1f} M |

Compiling is not in these seconds; the target's are those of its last curve point. The sampler wrote
{sample["tokens_per_s"]:,.0f} tokens a second, {sample["batch"]} rows at once, in the third training
{third["sample"]["tokens_per_s"]:,.0f}.

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
### Second training, by the right teacher
It began at that head, as if {SECOND_BEGAN} of {SECOND_TOTAL} seconds of the schedule had made it;
the optimizer began anew. Held out, against the target:

{chain_table(second["draft_held_out"]["held_out"])}
Training (seconds count from {SECOND_BEGAN}):

{draft_curve(second["draft"])}
The built command on the same questions:
{answers_tables(record["answers_second_head"])}
### Third training, on other questions: ships
It began at the second head. The {third["sample"]["train_tokens"] / 1e6:.1f} M tokens, from larger
pools of questions, were new to it and came about once each. The loss went from cross-entropy to 0.2
· cross-entropy + 0.8 · 2 · total variation at temperature 0.7 within the first 30 % of the time.
Places that the model chose itself, in no loop, carry it before others; rows of 1,024 tokens
throughout. Held out, stored in eight bits:

{chain_table(stored)}
Held-out answers alone, those in no loop: {states[0][1]["test"]["places"]:,} places of 32 conversations sampled at 0.7,
{states[0][1]["greedy"]["places"]:,} of the same 32 greedily. `Overlap` is 1 − total variation at 0.7, `same draw` how often
both draw one token with the same Gumbel noise. The target's likeliest token has on average a chance
of {states[0][1]["test"]["oracle"]:.3f} there: a draft that proposes its likeliest token alone matches sampled text no
oftener, one that shares the noise may.

{held_answers_table(states)}
A chain here begins at every place. Decoding begins the next where the last ended, leaps over easy
runs and takes a step for each hard place, so it gets fewer tokens a step; and an answer's first
tokens are harder than what follows. The head that ships, {walk["rows"]} of the conversations, chains of 7 on
{walk["device"]}, {walk["dtype"]}, {walk["date"]}, from every place / as decoding goes:

{walk_table(walk)}
Training (the loss's meaning changes until second {0.3 * third["draft"]["seconds"]:.0f}):

{draft_curve(third["draft"])}
## Dense draft
Of the dense model: its first two layers and its embedding as they are, two more trained in full
from its layers {dense["begin"][0]} and {dense["begin"][1]}, a final norm of its own; stored in four bits, 32 weights a scale, and
trained as stored, by the loss and the rows of the head's third training. Beginning at layers 28 and
29 was tried for {tried["last"]["steps"]} steps: overlap {overlap["last"]:.3f}, at 2 and 3 {overlap["first"]:.3f}. Held-out answers as above:

{dense_answers_table(dense)}
{dense_draft_curve(dense)}
## 16,384 tokens
Nats a token at places 0 to 4,096 / to 8,192 / to 16,384 of held-out rows, {65536 // 16384} rows a
text, nothing trained. Without a stretch both models break behind 8,192. YaRN by 2 is best for the
dense model there, costs it 0.01 to 0.04 before, and the sparse target lies 0.01 to 0.13 above it.

{stretch_table(record["stretch"])}
## Answers
The same held-out questions, by the head and the dense draft that ship; at temperature 0.7 draft and
target draw with the same noise, and the text is that of plain sampling. One thread of a busy
machine, so the tokens/s say little:
{answers_tables(record.get("answers", []))}"""


def main():
    with open(os.path.join(HERE, "record.json")) as file:
        record = json.load(file)
    with open(os.path.join(HERE, "RECORD.md"), "w") as file:
        file.write(page(record).rstrip() + "\n")


if __name__ == "__main__":
    main()
