"""How many tokens a step does the real pair emit on held-out questions? Asks the built command.

    python3 answers.py VERSIEVE OUT [--prompts 32] [--tokens 128] [--backend cuda]

OUT is what make.py made; a strategy's first word says which of its models answers. Questions come
from question_pools.py's test split: neither their forms nor their subjects were trained on. Each is
answered at temperature 0.7 and greedily, by every strategy. Adds the figures to record.json under "answers", one entry a device and number format.
"""

import argparse
import datetime
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

from question_pools import pools
from record_file import record_text

HERE = os.path.dirname(os.path.abspath(__file__))
STRATEGIES = ("nsa/ar", "nsa/d7k1n8/bfs/c1/F*", "nsa/d7k8n48/bfs/c1/F*")
STRATEGIES += ("dense/ar", "dense/d4k1n5/bfs/c1/F*")
TEMPERATURES = (0.7, 0.0)


def questions(count):
    test, draw = pools("test"), random.Random(5)
    found = []
    for i in range(count):
        s, t = draw.sample(test["subjects"], 2)
        text = test["forms"][i % len(test["forms"])].format(s=s, t=t)
        found.append(text[0].upper() + text[1:])
    return found


def loops(tokens, longest=80, least=64):
    """Whether a run of at least 64 tokens has a period p <= 80 and holds four of them (three where
    p > 16)."""
    for period in range(1, longest + 1):
        run = 0
        for i in range(period, len(tokens)):
            run = run + 1 if tokens[i] == tokens[i - period] else 0
            if run and run + period >= max(least, period * (3 if period > 16 else 4)):
                return True
    return False


def ask(options, model, strategies, question, temperature, seed):
    """The command's report on one question."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([{"role": "user", "content": question}], file)
        file.flush()
        command = [options.versieve, "--json", "generate", "--messages", file.name]
        command += ["--model", os.path.join(options.out, model)]
        command += ["--temperature", str(temperature), "--seed", str(seed)]
        command += ["--max-new-tokens", str(options.tokens), "--backend", options.backend]
        for name, value in (("--dtype", options.dtype), ("--threads", options.threads)):
            command += [name, value] if value else []
        for strategy in strategies:
            command += ["--strategy", strategy]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return json.loads(done.stdout)


class Sum:
    """Of one strategy at one temperature."""

    def __init__(self):
        self.answers, self.looping, self.steps, self.tokens, self.seconds = 0, 0, 0, 0, 0.0

    def add(self, run):
        self.answers += 1
        if loops(run["tokens"]):
            self.looping += 1
            return
        self.steps += run["steps"]
        self.tokens += sum(i * n for i, n in enumerate(run["accepted_histogram"]))
        self.seconds += run["decode_s"]

    def figures(self):
        out = {"answers": self.answers, "looping": self.looping, "steps": self.steps}
        if self.steps:
            out["tokens_a_step"] = round(self.tokens / self.steps, 4)
            out["tokens_per_s"] = round(self.tokens / self.seconds, 1)
        return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versieve")
    parser.add_argument("out")
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--strategy", action="append")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--dtype")
    parser.add_argument("--threads")
    options = parser.parse_args()
    sums, where, strategies = {}, {}, {}
    for strategy in options.strategy or STRATEGIES:
        strategies.setdefault(strategy.split("/")[0], []).append(strategy)
    for number, question in enumerate(questions(options.prompts)):
        for temperature, model in itertools.product(TEMPERATURES, strategies):
            report = ask(options, model, strategies[model], question, temperature, number + 1)
            where = {name: report[name] for name in ("device", "dtype")}
            for run in report.get("runs", [report]):  # of one strategy it is the report itself
                sums.setdefault((temperature, run["strategy"]), Sum()).add(run)
        print(number + 1, question, flush=True)
    rows = [
        {"temperature": temperature, "strategy": strategy, **one.figures()}
        for (temperature, strategy), one in sums.items()
    ]
    for row in rows:
        print(row)
    path = os.path.join(HERE, "record.json")
    with open(path) as file:
        record = json.load(file)
    date = datetime.date.today().isoformat()
    entry = {**where, "date": date, "prompts": options.prompts, "tokens": options.tokens}
    others = [
        x for x in record.get("answers", []) if (x["device"], x["dtype"]) != tuple(where.values())
    ]
    record["answers"] = [*others, {**entry, "rows": rows}]
    with open(path + ".tmp", "w") as file:
        file.write(record_text(record))
    os.replace(path + ".tmp", path)


if __name__ == "__main__":
    main()
