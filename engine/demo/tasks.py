"""Makes task sets of held-out text: what a lossy choice of the engine gets right, beside its loss.

    python3 tasks.py CORPUS OUT

CORPUS is the folder that corpus.py wrote; only documents of the split "test" are taken, and each is
checked to lie in it by the rule that dealt it. OUT gets three files, the same bytes for the same
corpus: continuation.json (which piece follows in a document, against pieces from its later part),
recall.json (the value of a key stated far before, against other keys' values) and next_line.json
(which line of code follows, against other lines of the file). The format is README.md's, section
"Task sets". Text alone: no tokenizer is asked.
"""

import argparse
import json
import lzma
import os
import random
import re
import sys

import generate_text
from corpus import split_of

FORMAT, SCHEMA = "versieve task set", 1
SPLIT = "test"
CHOICES = 4
# Pieces of documents go into the repository: only licences that allow it without conditions of
# their own on the rest.
PROSE_LICENCES = ("MIT or Apache-2.0", "Artistic-1.0-Perl or GPL-1.0-or-later")
# Bytes of each context with the questions asked in it; the longest stay below 8,192 tokens of
# SmolLM2.
CONTINUATION = ((25_500, 32), (13_000, 24), (12_000, 24), (6_500, 16))
NEXT_LINE = ((18_500, 36), (11_500, 24), (11_000, 24), (6_000, 16))
RECALL = ((10_500, 36), (7_000, 24), (4_500, 24), (2_500, 16))
# A document is this much longer than its context: wrong answers come from the rest.
SPARE = 1.15


def documents(corpus, split):
    """The split's documents, checked: none may be of a source or of words that trained."""
    with lzma.open(os.path.join(corpus, split + ".jsonl.xz"), "rt") as file:
        entries = [json.loads(line) for line in file]
    for entry in entries:
        group = entry["group"]
        own = group.split(":")[1] if group.startswith("generated:") else split_of(group)
        if entry["split"] != split or own != split:
            raise SystemExit(f"{entry['name']}: its source {group} is not of the split {split}")
    return sorted(entries, key=lambda entry: entry["name"])


def mixed(rng, true, wrong):
    """The choices in a random order and the place of the true one."""
    choices = [true, *wrong]
    rng.shuffle(choices)
    return {"choices": choices, "answer": choices.index(true)}


def spread(places, count):
    """`count` of the places, evenly."""
    if len(places) <= count:
        return places
    return [places[i * len(places) // count] for i in range(count)]


def filled(pool, rng, sizes, ask):
    """A context for each size and count of questions: the first document, in random order and of a
    source of its own, in which ask(entry, size) finds three quarters as many."""
    used = set()
    for size, count in sizes:
        fitting = [e for e in pool if len(e["text"]) >= size * SPARE and e["group"] not in used]
        rng.shuffle(fitting)
        for entry in fitting:
            asked = spread(ask(entry, size), count)
            if len(asked) >= count * 0.75:
                used.add(entry["group"])
                yield context(entry, entry["text"][: max(q["at"] for q in asked)], asked)
                break
        else:
            raise SystemExit(f"no further document for {count} questions in {size} bytes")


def context(entry, text, questions):
    return {
        "source": f"{entry['group']} {entry['name']}",
        "licence": entry["licence"],
        "text": text,
        "questions": questions,
    }


# Which piece of the document follows.


def pieces(text):
    """start -> piece: behind the end of a sentence its white space and 50 to 90 bytes of words."""
    found = {}
    for match in re.finditer(r"(?<=[a-z)`][.:])(?: |  |\n\n?)(?=[A-Z`])", text):
        words = text[match.end() : match.end() + 90]
        words = words[: max(words.rfind(" "), words.rfind("\n"))]
        plain = re.fullmatch(r"[\w ,.;:'\"()`<>/\n-]+", words) and "\n\n" not in words
        if plain and len(words) >= 50:
            found[match.start()] = match.group() + words
    return found


def continuation(entries, split):
    rng = random.Random(f"continuation/{split}")

    def ask(entry, size):
        text = entry["text"]
        found = pieces(text)
        later = sorted({p for at, p in found.items() if at >= size and p not in text[:size]})
        questions = []
        for at, true in found.items():
            wrong = [p for p in later if p != true]
            if size * 0.2 < at <= size and len(wrong) >= 2 * CHOICES and true not in text[:at]:
                wrong = rng.sample(wrong, CHOICES - 1)
                questions.append({"at": at, **mixed(rng, true, wrong)})
        return questions

    pool = [
        e
        for e in entries
        if e["kind"] == "prose" and e["licence"] in PROSE_LICENCES and "CHANGELOG" not in e["name"]
    ]
    yield from filled(pool, rng, CONTINUATION, ask)


# Which line of code follows.


def indent(line):
    return len(line) - len(line.lstrip())


def line_starts(lines):
    place = 0
    for line in lines:
        yield place
        place += len(line) + 1


def next_line(entries, split):
    rng = random.Random(f"next_line/{split}")

    def alike(line, true):
        return line != true and indent(line) == indent(true) and abs(len(line) - len(true)) <= 30

    def ask(entry, size):
        lines = entry["text"].split("\n")
        rows = list(enumerate(zip(line_starts(lines), lines)))
        # Lines with two words or names at least, and the only ones of their text.
        rows = [
            (i, start, line)
            for i, (start, line) in rows
            if re.search(r"\w\W+\w", line) and len(line) <= 76 and lines.count(line) == 1
        ]
        later = [line for _, start, line in rows if start > size]
        questions = []
        for i, start, true in rows:
            wrong = [line for line in later if alike(line, true)]
            if size * 0.2 < start <= size and lines[i - 1].strip() and len(wrong) >= 2 * CHOICES:
                wrong = ["\n" + line for line in rng.sample(wrong, CHOICES - 1)]
                questions.append({"at": start - 1, **mixed(rng, "\n" + true, wrong)})
        return questions

    yield from filled([e for e in entries if e["kind"] == "code"], rng, NEXT_LINE, ask)


# What was the value of a key. Keys of a letter, digits and a name, asked for as they were stated:
# of eight forms tried, the one that SmolLM2-135M mostly reads back over 4,000 tokens.


def records(writer, size):
    """(text, [(key, value, place of its line)]); no key and no value twice."""
    text, found, seen = "", [], set()
    while len(text) < size:
        letter = writer.random.choice("ABCDEFGHJKLMNPQRSTUVWXYZ")
        digits = writer.random.randint
        key = f"{letter}{digits(100, 999)} {writer.name()}"
        value = str(digits(1000, 9999))
        if key not in seen and value not in seen:
            seen |= {key, value}
            found.append((key, value, len(text)))
            text += f"{key}: {value}\n"
    return text.rstrip("\n"), found


def recall(entries, split):
    del entries  # the names are the generator's, of the split's syllables
    for number, (size, count) in enumerate(RECALL):
        writer = generate_text.Writer(split, f"task/{number}")
        text, found = records(writer, size)
        questions = []
        for key, value, place in spread(found[:-8], count):
            others = [other for _, other, _ in found if other != value]
            wrong = [f" {other}" for other in writer.random.sample(others, CHOICES - 1)]
            asked = mixed(writer.random, f" {value}", wrong)
            questions.append({"ask": f"\n{key}:", "evidence": place, **asked})
        entry = {
            "group": f"generated:{split}",
            "name": f"recall/task/{number}",
            "licence": "Apache-2.0 (this project's generator)",
        }
        yield context(entry, text, questions)


SETS = {
    "continuation": (continuation, "which piece follows in the document"),
    "recall": (recall, "the value of a key stated earlier"),
    "next_line": (next_line, "which line follows in the file"),
}


def written(name, question, contexts):
    """JSON with a line a question."""
    head = {"format": FORMAT, "schema": SCHEMA, "name": name, "question": question}
    out = json.dumps(head)[:-1] + ', "contexts": [\n'
    parts = []
    for entry in contexts:
        fields = json.dumps({k: v for k, v in entry.items() if k != "questions"})[:-1]
        asked = ",\n".join(json.dumps(q, separators=(",", ":")) for q in entry["questions"])
        parts.append(f'{fields}, "questions": [\n{asked}]}}')
    return out + ",\n".join(parts) + "]}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", help="folder of corpus.py")
    parser.add_argument("out", help="folder for the sets")
    options = parser.parse_args()
    entries = documents(options.corpus, SPLIT)
    os.makedirs(options.out, exist_ok=True)
    for name, (make, question) in SETS.items():
        contexts = list(make(entries, SPLIT))
        text = written(name, question, contexts)
        path = os.path.join(options.out, name + ".json")
        with open(path + ".part", "w") as file:
            file.write(text)
        os.replace(path + ".part", path)
        count = sum(len(c["questions"]) for c in contexts)
        print(f"{name}: {count} questions in {len(contexts)} contexts, {len(text)} bytes")


if __name__ == "__main__":
    sys.exit(main())
