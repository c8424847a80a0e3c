"""Are task sets what their maker says: the same bytes each time, true answers, nothing trained on?

A corpus is made here; what ships is checked too. Needs the standard library alone.
"""

import json
import lzma
import os
import subprocess
import sys
import tempfile
import unittest

DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../engine/demo")
sys.path.insert(0, DEMO)

import corpus  # noqa: E402
import tasks  # noqa: E402

MOST_BYTES = 250_000  # of all that ships
WORDS = "block query layer token route merge cache page tree draft path score".split()


def groups(split, kind, count):
    """Names that the corpus deals to that split."""
    names = (f"{kind}:made{i}" for i in range(10_000))
    found = (name for name in names if corpus.split_of(name) == split)
    return [next(found) for _ in range(count)]


def sentence(number):
    words = [WORDS[number // len(WORDS) ** i % len(WORDS)] for i in range(3)]
    one, two, three = words
    return f"The {one} of number {number} is kept by the {two} that the {three} had before."


def prose(size):
    text, number = "", 0
    while len(text) < size:
        text += sentence(number) + ("\n\n" if number % 7 == 6 else " ")
        number += 1
    return text


def code(size):
    text, number = "", 0
    while len(text) < size:
        a, b = WORDS[number % 12], WORDS[number // 12 % 12]
        text += f"    {a}_{number} = {b}({a}, {number})\n" + ("\n" if number % 9 == 8 else "")
        number += 1
    return text


def made_corpus(split="test"):
    entries = []
    for kind, make, licence in (
        ("prose", prose, "MIT or Apache-2.0"),
        ("code", code, "PSF-2.0"),
    ):
        for name in groups(split, kind, 5):
            entries.append(
                {
                    "kind": kind,
                    "group": name,
                    "split": split,
                    "name": name + "/page",
                    "licence": licence,
                    "text": make(32_000),
                }
            )
    return entries


class Made(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = room.name

    def make(self, entries, out="out"):
        with lzma.open(os.path.join(self.room, "test.jsonl.xz"), "wt") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)
        script = os.path.join(DEMO, "tasks.py")
        folder = os.path.join(self.room, out)
        run = subprocess.run(
            [sys.executable, "-B", script, self.room, folder], capture_output=True, text=True
        )
        return run, folder

    def sets(self, folder):
        return {name: self.read(folder, name) for name in tasks.SETS}

    def read(self, folder, name):
        with open(os.path.join(folder, name + ".json")) as file:
            return json.load(file)

    def test_the_same_corpus_gives_the_same_bytes(self):
        entries = made_corpus()
        first, one = self.make(entries)
        self.assertEqual(first.returncode, 0, first.stderr)
        second, two = self.make(entries[::-1], "again")
        self.assertEqual(second.returncode, 0, second.stderr)
        for name in tasks.SETS:
            with open(f"{one}/{name}.json", "rb") as a, open(f"{two}/{name}.json", "rb") as b:
                self.assertEqual(a.read(), b.read(), name)

    def test_the_answer_is_what_follows_and_no_other_choice_does(self):
        entries = made_corpus()
        run, folder = self.make(entries)
        self.assertEqual(run.returncode, 0, run.stderr)
        texts = {f"{e['group']} {e['name']}": e["text"] for e in entries}
        for name in ("continuation", "next_line"):
            for context in self.read(folder, name)["contexts"]:
                text = texts[context["source"]]
                self.assertTrue(text.startswith(context["text"]))
                for question in context["questions"]:
                    follows = text[question["at"] :]
                    starts = [follows.startswith(choice) for choice in question["choices"]]
                    self.assertEqual(starts.index(True), question["answer"])
                    self.assertEqual(sum(starts), 1)
                    for place, choice in enumerate(question["choices"]):
                        if place != question["answer"]:
                            self.assertNotIn(choice, context["text"])
                            self.assertIn(choice, text)

    def test_answers_stand_in_every_place(self):
        run, folder = self.make(made_corpus())
        self.assertEqual(run.returncode, 0, run.stderr)
        for name, found in self.sets(folder).items():
            answers = [q["answer"] for c in found["contexts"] for q in c["questions"]]
            self.assertGreaterEqual(len(answers), 80, name)
            for place in range(tasks.CHOICES):
                self.assertGreaterEqual(answers.count(place), len(answers) / 8, name)

    def test_a_source_that_trained_is_refused_and_nothing_is_written(self):
        trained, calibrated = (groups(split, "code", 1)[0] for split in ("train", "calibration"))
        for group in (trained, calibrated, "generated:train"):
            entries = made_corpus()
            entries[0] = {**entries[0], "group": group}
            run, folder = self.make(entries, "refused")
            self.assertEqual(run.returncode, 1)
            self.assertIn(group, run.stderr)
            self.assertFalse(os.path.exists(folder))

    def test_a_document_of_another_split_is_refused(self):
        entries = made_corpus()
        entries[0]["split"] = "train"
        run, _ = self.make(entries)
        self.assertEqual(run.returncode, 1)
        self.assertIn(entries[0]["name"], run.stderr)

    def test_licences_with_conditions_stay_out(self):
        entries = made_corpus()
        for entry in entries:
            if entry["kind"] == "prose":
                entry["licence"] = "GPL and BSD"
        run, _ = self.make(entries)
        self.assertEqual(run.returncode, 1)
        self.assertIn("no further document", run.stderr)


class Recall(unittest.TestCase):
    def contexts(self, split="test"):
        return list(tasks.recall([], split))

    def test_the_value_is_the_one_of_the_key(self):
        for context in self.contexts():
            stated = dict(line.split(": ") for line in context["text"].split("\n"))
            self.assertEqual(len(stated), context["text"].count("\n") + 1)
            for question in context["questions"]:
                key = question["ask"].strip().rstrip(":")
                true = question["choices"][question["answer"]]
                self.assertEqual(true, " " + stated[key])
                self.assertTrue(context["text"][question["evidence"] :].startswith(key + ":"))
                values = [choice.strip() for choice in question["choices"]]
                self.assertEqual(len(set(values)), tasks.CHOICES)
                self.assertTrue(set(values) <= set(stated.values()))

    def test_splits_share_no_name(self):
        names = {}
        for split in ("test", "calibration", "train"):
            lines = [line for c in self.contexts(split) for line in c["text"].split("\n")]
            names[split] = {line.split()[1] for line in lines}
        self.assertFalse(names["test"] & names["train"])
        self.assertFalse(names["calibration"] & names["train"])


class Shipped(unittest.TestCase):
    def read(self, name):
        with open(os.path.join(DEMO, "tasks", name + ".json")) as file:
            return file.read()

    def test_sets_are_small_and_of_held_out_sources(self):
        self.assertLessEqual(sum(len(self.read(name)) for name in tasks.SETS), MOST_BYTES)
        for name in tasks.SETS:
            found = json.loads(self.read(name))
            self.assertEqual((found["format"], found["name"]), (tasks.FORMAT, name))
            for context in found["contexts"]:
                group = context["source"].split(" ")[0]
                own = group == "generated:test" or corpus.split_of(group) == "test"
                self.assertTrue(own, group)
                self.assertTrue(context["licence"])

    def test_recall_is_what_the_script_writes(self):
        contexts = list(tasks.recall([], "test"))
        self.assertEqual(
            tasks.written("recall", tasks.SETS["recall"][1], contexts), self.read("recall")
        )


if __name__ == "__main__":
    unittest.main()
