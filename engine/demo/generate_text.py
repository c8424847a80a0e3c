"""Writes the generated part of the demo's text: dialogues, plans and long-range recall.

Every pool of sentences, subjects and names is dealt out to the three splits (train, calibration,
test), so a held-out document is made of sentence forms and words that training never saw. What
carries over is the habit of reading back: lists repeated after a change, steps quoted, facts asked
for thousands of bytes later. Randomness is an argument; the same seed gives the same bytes.
"""

import random

from text_pools import POOLS, SUBJECTS, SYLLABLES

SPLITS = ("train", "calibration", "test")
TOOLS = (
    *("search", "edit_file", "run_command", "read_page", "send_note", "query_table", "call_api"),
    *("open_page", "write_file", "build", "fetch_row", "post_note", "list_files", "ask_person"),
)


def split_share(items, split):
    """Deals a pool out by position: of 7 items, 5 to train, 1 to calibration, 1 to test."""
    places = {"train": (0, 1, 2, 3, 4), "calibration": (5,), "test": (6,)}[split]
    return [item for place, item in enumerate(items) if place % 7 in places]


class Writer:
    """One document's choices: its split's words, its style, and the facts it has stated."""

    def __init__(self, split, seed, passages=()):
        self.split, self.random = split, random.Random(f"{split}/{seed}")
        self.passages = passages
        self.style = {}
        self.facts = []
        subjects = split_share(SUBJECTS, split)
        self.subject, items, actions, traits = self.random.choice(subjects)
        self.items, self.actions, self.traits = (
            items.split("|"),
            actions.split("|"),
            traits.split("|"),
        )

    def say(self, pool, **fields):
        """A sentence of `pool`; a document keeps to two forms of each, as a speaker would."""
        if pool not in self.style:
            share = split_share(POOLS[pool], self.split)
            self.style[pool] = self.random.sample(share, min(2, len(share)))
        return self.random.choice(self.style[pool]).format(**fields)

    def word(self):
        share = split_share(SYLLABLES, self.split)
        return "".join(self.random.choice(share) for _ in range(self.random.randint(2, 3)))

    def name(self):
        return self.word().capitalize()

    def code(self):
        letters = "".join(self.random.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(2))
        return f"{letters}-{self.random.randint(1000, 9999)}"

    def item(self):
        return self.random.choice(self.items)

    def thing(self):
        return f"{self.random.choice(self.traits)} {self.item()}"

    def step(self):
        return f"{self.random.choice(self.actions)} the {self.thing()}"

    def tool(self):
        return self.random.choice(split_share(TOOLS, self.split))

    def clock(self):
        return f"{self.random.randint(6, 21):02d}:{self.random.choice(('00', '15', '30', '45'))}"


# Dialogues. Each scene returns a list of (speaker, text); `user` and `helper` alternate.


def scene_list(w):
    """A list is kept: every change is confirmed by printing the whole list again."""
    held = [f"{w.random.randint(2, 40)} {w.thing()}" for _ in range(w.random.randint(3, 6))]
    turns = [("user", w.say("list_start", subject=w.subject) + " " + "; ".join(held) + ".")]

    def show(opening):
        rows = "\n".join(f"{place}. {entry}" for place, entry in enumerate(held, 1))
        return ("helper", f"{opening}\n{rows}")

    turns.append(show(w.say("list_shown", subject=w.subject, count=len(held))))
    for _ in range(w.random.randint(2, 5)):
        if w.random.random() < 0.4 and len(held) > 2:
            gone = held.pop(w.random.randrange(len(held)))
            turns.append(("user", w.say("list_remove", entry=gone)))
            turns.append(show(w.say("removed", entry=gone)))
        else:
            entry = f"{w.random.randint(2, 40)} {w.thing()}"
            held.append(entry)
            turns.append(("user", w.say("list_add", entry=entry)))
            turns.append(show(w.say("added", entry=entry)))
    return turns


def scene_steps(w):
    """Instructions are given, then asked about by number and quoted back."""
    goal = w.step()
    steps = [w.step() for _ in range(w.random.randint(4, 7))]
    listing = "\n".join(f"Step {place}: {text}." for place, text in enumerate(steps, 1))
    turns = [("user", w.say("ask_how", goal=goal, subject=w.subject))]
    turns.append(("helper", f"{w.say('steps_intro', goal=goal)}\n{listing}"))
    for _ in range(w.random.randint(2, 4)):
        place = w.random.randint(1, len(steps))
        turns.append(("user", w.say("ask_step", number=place)))
        reply = w.say("quote_step", number=place, text=steps[place - 1])
        if place < len(steps):
            reply += " " + w.say("next_step", number=place + 1, text=steps[place])
        turns.append(("helper", reply))
    return turns


def scene_order(w):
    """A case with a number, a name and a date, repeated by both sides."""
    code, name, thing = w.code(), w.name(), w.thing()
    day = f"{w.random.randint(1, 28)} {w.random.choice(('March', 'April', 'June', 'October'))}"
    w.facts += [(f"the number of the order for the {thing}", code)]
    return [
        ("user", w.say("order_problem", thing=thing, code=code)),
        ("helper", w.say("order_name", code=code)),
        ("user", w.say("order_reply", name=name, day=day)),
        ("helper", w.say("order_confirm", name=name, code=code, thing=thing, day=day)),
        ("user", w.say("order_thanks", code=code)),
        ("helper", w.say("order_close", name=name, code=code, day=day)),
    ]


def scene_facts(w):
    """Facts to be remembered; scene_recall asks for them later, near or far."""
    turns = []
    for _ in range(w.random.randint(2, 4)):
        what = w.random.choice(
            ("password", "door code", "contact", "meeting room", "locker", "badge")
        )
        about = f"the {what} for the {w.thing()}"
        value = w.random.choice((w.code, w.name, w.clock))()
        w.facts.append((about, value))
        turns.append(("user", w.say("tell_fact", about=about, value=value)))
        turns.append(("helper", w.say("note_fact", about=about, value=value)))
    return turns


def scene_recall(w):
    turns = []
    for about, value in w.random.sample(w.facts, min(len(w.facts), w.random.randint(1, 3))):
        turns.append(("user", w.say("ask_fact", about=about)))
        turns.append(("helper", w.say("recall_fact", about=about, value=value)))
    return turns


def scene_passage(w):
    """A question about a document of the same split, answered by quoting it."""
    if not w.passages:
        return scene_steps(w)
    title, text = w.random.choice(w.passages)
    lines = [line.strip() for line in text.splitlines() if 40 < len(line.strip()) < 200]
    if not lines:
        return scene_steps(w)
    turns = [("user", w.say("ask_passage", title=title))]
    turns.append(("helper", f"{w.say('give_passage', title=title)}\n\n{text}"))
    for _ in range(w.random.randint(1, 2)):
        line = w.random.choice(lines)
        words = line.split()
        turns.append(("user", w.say("ask_line", words=" ".join(words[: max(3, len(words) // 3)]))))
        turns.append(("helper", w.say("give_line", line=line)))
    return turns


DIALOGUE_SCENES = (
    (scene_list, 2.0),
    (scene_steps, 2.5),
    (scene_order, 1.5),
    (scene_facts, 1.2),
    (scene_recall, 1.6),
    (scene_passage, 1.6),
)


def dialogue(split, seed, size, passages=()):
    """A dialogue of at least `size` bytes."""
    w = Writer(split, f"dialogue/{seed}", passages)
    user, helper = w.random.choice((("User", "Assistant"), ("Human", "Assistant"), ("Q", "A")))
    scenes, weights = zip(*DIALOGUE_SCENES)
    turns = [
        ("user", w.say("greet", subject=w.subject)),
        ("helper", w.say("greet_back", subject=w.subject)),
    ]
    text, length = [], 0
    while length < size:
        for speaker, words in turns:
            text.append(f"{user if speaker == 'user' else helper}: {words}\n\n")
            length += len(text[-1])
        scene = w.random.choices(scenes, weights)[0]
        if scene is scene_recall and not w.facts:
            scene = scene_facts
        turns = scene(w)
    return "".join(text)


# Plans.


def plan_table(rows, marks):
    return "".join(
        f"- [{marks[state]}] {number}. {text} (owner: {owner}, due day {day})\n"
        for number, (text, owner, day, state) in enumerate(rows, 1)
    )


def plan_project(w):
    """A plan with owners and days; each review repeats it with the states that changed."""
    owners = [w.name() for _ in range(w.random.randint(2, 4))]
    goal = w.step()
    rows, day = [], 0
    for _ in range(w.random.randint(5, 9)):
        day += w.random.randint(1, 4)
        rows.append([w.step().capitalize(), w.random.choice(owners), day, 0])
    marks = " >x"
    text = f"## {w.say('plan_title', goal=goal, subject=w.subject)}\n\n{w.say('plan_why', goal=goal)}\n\n"
    text += plan_table(rows, marks)
    for review in range(1, w.random.randint(3, 6)):
        text += f"\n### {w.say('plan_review', number=review)}\n\n"
        open_rows = [row for row in rows if row[3] < 2]
        for row in open_rows[: w.random.randint(1, 3)]:
            row[3] += w.random.randint(1, 2) if row[3] == 0 else 1
            number = rows.index(row) + 1
            pool = "plan_done" if row[3] == 2 else "plan_begun"
            text += w.say(pool, number=number, step=row[0].lower(), owner=row[1]) + "\n"
        if open_rows and w.random.random() < 0.4:
            late = w.random.choice(open_rows)
            late[2] += w.random.randint(1, 5)
            number = rows.index(late) + 1
            text += w.say("plan_late", number=number, owner=late[1], day=late[2]) + "\n"
        text += "\n" + plan_table(rows, marks)
    return text + "\n"


def plan_agent(w):
    """A worker's log: thought, action, observation, with the remaining steps restated."""
    goal = w.step()
    steps = [w.step() for _ in range(w.random.randint(3, 6))]
    text = f"Goal: {goal}\nPlan:\n" + "".join(f"  {n}. {s}\n" for n, s in enumerate(steps, 1))
    for number, step in enumerate(steps, 1):
        code, count = w.code(), w.random.randint(2, 90)
        text += f"\nThought: {w.say('agent_thought', number=number, step=step)}\n"
        text += f'Action: {{"tool": "{w.tool()}", "step": {number}, "target": "{step}", "id": "{code}"}}\n'
        text += f"Observation: {w.say('agent_seen', step=step, code=code, count=count)}\n"
        left = steps[number:]
        text += f"Done: {number} of {len(steps)}. "
        text += ("Remaining: " + "; ".join(left) + ".\n") if left else f"The goal is met: {goal}.\n"
    return text + "\n"


def plan_schedule(w):
    """A day's table, then the same table after each change."""
    rows = sorted({w.clock(): (w.step(), w.name()) for _ in range(w.random.randint(4, 8))}.items())

    def table():
        head = "| time | task | who |\n|---|---|---|\n"
        return head + "".join(f"| {time} | {task} | {who} |\n" for time, (task, who) in rows)

    text = f"## {w.say('schedule_title', subject=w.subject)}\n\n{table()}"
    for _ in range(w.random.randint(1, 3)):
        place = w.random.randrange(len(rows))
        time, (task, who) = rows[place]
        new = w.name()
        rows[place] = (time, (task, new))
        text += f"\n{w.say('schedule_change', time=time, task=task, old=who, new=new)}\n\n{table()}"
    return text + "\n"


def plan_runbook(w):
    """A checklist with a command, an expected answer and a way back for each step."""
    unit = w.word()
    text = f"## {w.say('runbook_title', unit=unit, subject=w.subject)}\n\n"
    steps = [w.step() for _ in range(w.random.randint(3, 6))]
    for number, step in enumerate(steps, 1):
        port = w.random.randint(1024, 9999)
        text += (
            f"{number}. {step.capitalize()}.\n   run: `{unit}ctl {step.split()[0]} --port {port}`\n"
        )
        text += f"   expect: {w.say('runbook_expect', unit=unit, port=port)}\n"
        text += f"   undo: `{unit}ctl revert --port {port} --step {number}`\n"
    text += f"\n{w.say('runbook_undo')}\n"
    for number in range(len(steps), 0, -1):
        text += f"- undo step {number}: {steps[number - 1]}\n"
    return text + "\n"


PLAN_PARTS = ((plan_project, 3), (plan_agent, 3), (plan_schedule, 2), (plan_runbook, 2))


def plan(split, seed, size):
    w = Writer(split, f"plan/{seed}")
    parts, weights = zip(*PLAN_PARTS)
    text = f"# {w.say('plan_book', subject=w.subject, name=w.name())}\n\n"
    while len(text) < size:
        text += w.random.choices(parts, weights)[0](w)
    return text


# Recall: the answer stands in one far block and nowhere else.


def recall_records(w, size):
    """Records, then questions whose answers lie anywhere before them."""
    kind = w.word()
    records, text, asked = {}, "", 0
    gap = w.random.choice((0.1, 0.3, 0.5))
    while len(text) < size:
        if len(records) > 3 and w.random.random() < gap:
            key = w.random.choice(list(records))
            text += f"? {kind} {key} => {records[key]}\n"
            asked += 1
        else:
            key = f"{w.word()}.{w.random.randint(10, 99)}"
            records[key] = w.random.choice(
                (w.code(), f"{w.word()} {w.word()}", str(w.random.randint(0, 10**6)))
            )
            text += f"{kind} {key} = {records[key]}\n"
    return text


def recall_copy(w, size):
    """A page of lines, filler, then the page again with some lines changed and named."""
    lines = [
        f"{n:03d} " + " ".join(w.word() for _ in range(w.random.randint(3, 7)))
        for n in range(1, max(4, size // 140))
    ]
    text = "BEGIN\n" + "\n".join(lines) + "\nEND\n"
    while len(text) < size * 0.5:
        text += w.say("agent_thought", number=len(text) % 7 + 1, step=w.step()) + "\n"
    text += "COPY, with every changed line marked\n"
    for line in lines:
        if w.random.random() < 0.08:
            line = "* " + line.replace(line.split()[-1], w.word())
        text += line + "\n"
    return text + "END\n"


def recall_table(w, size):
    """A wide table, then look-ups by row and column."""
    columns = [w.word() for _ in range(w.random.randint(3, 5))]
    rows = {}
    count = w.random.randint(6, max(7, size // 60))
    while len(rows) < count:
        rows[w.name()] = [str(w.random.randint(10, 9999)) for _ in columns]
    text = "name," + ",".join(columns) + "\n"
    text += "".join(f"{name}," + ",".join(cells) + "\n" for name, cells in rows.items())
    while len(text) < size:
        name, place = w.random.choice(list(rows)), w.random.randrange(len(columns))
        text += f"{columns[place]} of {name}: {rows[name][place]}\n"
    return text


def recall(split, seed, size):
    w = Writer(split, f"recall/{seed}")
    return w.random.choices((recall_records, recall_copy, recall_table), (3, 2, 2))[0](w, size)
