"""Collects the demo's text from a Debian development machine and splits it by source.

Only text that toolchains have installed, and only where the licence was checked: Python's library
source, manual pages whose package is in Debian main under a licence on the list below, Perl's own
pods, the Rust books. A group (module, package, chapter) goes whole into one split, decided by the
hash of its name. Writes OUT/<split>.jsonl.xz, one document a line, the prompts, and DATA.md.
Usage: corpus.py OUT_FOLDER [--man-cache FOLDER]
"""

import argparse
import collections
import glob
import gzip
import hashlib
import html.parser
import json
import lzma
import multiprocessing
import os
import re
import subprocess
import sysconfig
import zlib

import generate_text
import prompts as prompt_files

SPLITS = generate_text.SPLITS
FREE = {
    "GPL": r"\bL?GPL|GNU (?:Lesser |Library )?General Public|gnu general public",
    "BSD": r"\bBSD\b|Redistribution and use in source and binary forms",
    "MIT": r"\bMIT\b|\bExpat\b|Permission is hereby granted, free of charge",
    "Apache": r"\bApache",
    "ISC": r"\bISC\b|Permission to use, copy, modify, and(?:/or)? distribute",
    "public domain": r"public[ -]domain",
    "Artistic": r"\bArtistic\b",
    "zlib": r"\bzlib licen",
    "MPL": r"\bMPL\b|Mozilla Public",
}
# The GFDL and Creative Commons texts carry conditions on derived text; their packages stay out.
BARRED = r"GFDL|Free Documentation License|\bCC[- ]BY|Creative Commons|non-?commercial|non-free"
PYTHON_SKIP = re.compile(
    r"site-packages|/(?:__pycache__|_bundled|pydoc_data|encodings|cjkencodings|lib2to3/tests/data)/"
)
RUST_BOOKS = (
    "book nomicon reference rust-by-example embedded-book edition-guide cargo rustc rustdoc "
    "style-guide unstable-book error_codes clippy"
).split()
PLAIN = str.maketrans(
    dict(zip("\u2018\u2019\u201c\u201d\u2013\u2014\u2010\u00a0\u2026", "''\"\"--- ."))
)
LICENCES = {
    "python": "PSF-2.0",
    "perl": "Artistic-1.0-Perl or GPL-1.0-or-later",
    "rust": "MIT or Apache-2.0",
    "generated": "Apache-2.0 (this project's generator)",
}
QUOTED = "; quoted passages keep the licence of the page they name"


def split_of(group):
    """4 % of the groups calibrate, 7 % test, the rest train."""
    place = int.from_bytes(hashlib.sha256(group.encode()).digest()[:4], "big") % 100
    return "calibration" if place < 4 else "test" if place < 11 else "train"


def document(kind, group, name, text, licence):
    text = text.translate(PLAIN).encode("ascii", "replace").decode().replace("\r", "")
    text = re.sub(r"\n{4,}", "\n\n\n", text)
    return {
        "kind": kind,
        "group": group,
        "split": split_of(group),
        "name": name,
        "licence": licence,
        "text": text,
    }


def python_documents():
    """Each module once, from the newest Python that has it; its tests go into the same group."""
    roots = sorted(
        glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/lib/python3.*")),
        key=lambda path: -int(path.rsplit(".", 1)[1]),
    )
    roots.append(sysconfig.get_path("stdlib"))
    seen = set()
    for root in roots:
        for path in sorted(glob.glob(root + "/**/*.py", recursive=True)):
            name = os.path.relpath(path, root)
            if name in seen or PYTHON_SKIP.search(path) or os.path.getsize(path) < 400:
                continue
            seen.add(name)
            with open(path, "rb") as file:
                text = file.read().decode("utf-8", "replace")
            if sum(ord(char) > 126 for char in text) > len(text) * 0.01:
                continue
            yield document("code", "python:" + module_group(name), name, text, LICENCES["python"])


def module_group(name):
    """What belongs together: a package with its tests, private and C-twin modules."""
    parts = [re.sub(r"^(test_|_)|\.py$", "", part) for part in name.split("/")]
    parts = [part for part in parts if part not in ("test", "tests", "idle_test", "init__", "")]
    root = parts[0] if parts else "init"
    root = re.sub(r"^py(?=datetime|decimal|abc|io|long)|tester$|_tests?$|\d+$", "", root)
    return {"collections_abc": "collections", "strptime": "time", "weakrefset": "weakref"}.get(
        root, root
    )


def licence_of(package):
    """The recognised licence names of a Debian main package, or None."""
    paths = glob.glob(f"/usr/share/doc/{package}/copyright")
    query = ["dpkg-query", "-W", "-f", "${Section}\t${Maintainer}", package]
    answer = subprocess.run(query, capture_output=True, text=True).stdout
    section, _, maintainer = answer.partition("\t")
    if (
        not paths
        or not section
        or "non-free" in section
        or "contrib" in section
        or "google" in maintainer.lower()
    ):
        return None
    with open(paths[0], errors="replace") as file:
        text = file.read()
    if re.search(BARRED, text, re.IGNORECASE):
        return None
    found = [name for name, pattern in FREE.items() if re.search(pattern, text)]
    return " and ".join(found) or None


def render_page(path):
    """A manual page as plain text of 80 columns; '' where it is only a pointer to another."""
    with gzip.open(path, "rt", errors="replace") as file:
        if re.match(r"\s*\.so ", file.read(200)):
            return path, ""
    environment = {**os.environ, "MANWIDTH": "80", "LC_ALL": "C", "MANPAGER": "cat", "PAGER": "cat"}
    command = ["man", "-E", "ascii", "--no-hyphenation", "--no-justification", "-l", path]
    shown = subprocess.run(command, capture_output=True, env=environment, timeout=120)
    text = shown.stdout.decode("ascii", "replace")
    return path, re.sub(r".\x08", "", text)


def manual_documents(cache):
    paths = [
        path
        for path in sorted(glob.glob("/usr/share/man/man[1-8]/*.gz"))
        if os.path.isfile(path) and not os.path.islink(path)
    ]
    owner = {}
    for start in range(0, len(paths), 500):
        command = ["dpkg", "-S", *paths[start : start + 500]]
        for line in subprocess.run(command, capture_output=True, text=True).stdout.splitlines():
            names, path = line.split(": ", 1)
            owner[path] = names.split(",")[0].split(":")[0]
    licences = {package: licence_of(package) for package in sorted(set(owner.values()))}
    kept = [path for path in paths if owner.get(path) and licences[owner[path]]]
    rendered = {}
    saved = os.path.join(cache, "man.json.xz")
    if os.path.exists(saved):
        with lzma.open(saved, "rt") as file:
            rendered = json.load(file)
    missing = [path for path in kept if path not in rendered]
    if missing:
        with multiprocessing.Pool(2) as pool:
            rendered.update(pool.imap_unordered(render_page, missing, chunksize=20))
        with lzma.open(saved, "wt", preset=1) as file:
            json.dump(rendered, file)
    for path in kept:
        package, text = owner[path], rendered[path]
        if len(text) > 600:
            name = os.path.basename(path)[:-3]
            yield document("prose", manual_group(package, name), name, text, licences[package])


def manual_group(package, page):
    """Packages of one product share a group; the two large ones are divided by page stem."""
    if package in ("manpages", "manpages-dev"):
        return "man-pages:" + re.sub(r"\.\d\w*$", "", page).strip("_0123456789")[:4]
    product = re.sub(
        r"^lib|-(?:dev|bin|common|utils?|data|extra|tools|man|core|base)$|[\d.]+", "", package
    )
    return "manual:" + product.split("-")[0]


def perl_documents():
    roots = glob.glob("/usr/share/perl/5.*") + glob.glob("/usr/lib/x86_64-linux-gnu/perl/5.*")
    for root in sorted({os.path.realpath(path) for path in roots}):
        for path in sorted(glob.glob(root + "/**/*.p[mo]*", recursive=True)):
            with open(path, "rb") as file:
                if b"\n=head1" not in file.read():
                    continue
            text = subprocess.run(["pod2text", path], capture_output=True).stdout.decode(
                "ascii", "replace"
            )
            name = os.path.relpath(path, root)
            if len(text) > 600:
                group = "perl:" + re.sub(r"\.p\w+$", "", "/".join(name.split("/")[:2]))
                yield document("prose", group, name, text, LICENCES["perl"])


class PageText(html.parser.HTMLParser):
    """The text of a book page's <main>; code keeps its lines, paragraphs are set apart."""

    BLOCKS = {"p", "h1", "h2", "h3", "h4", "li", "tr", "pre", "blockquote", "table", "ul", "ol"}

    def __init__(self):
        super().__init__()
        self.depth, self.pre, self.skip, self.out = 0, 0, 0, []

    def handle_starttag(self, tag, attributes):
        if tag == "main":
            self.depth += 1
        self.pre += tag == "pre"
        self.skip += tag in ("script", "style", "button")
        if tag in self.BLOCKS:
            self.out.append("\n- " if tag == "li" else "\n")

    def handle_endtag(self, tag):
        if tag == "main":
            self.depth -= 1
        self.pre -= tag == "pre"
        self.skip -= tag in ("script", "style", "button")
        if tag in self.BLOCKS:
            self.out.append("\n")

    def handle_data(self, data):
        if self.depth and not self.skip:
            self.out.append(data if self.pre else re.sub(r"\s+", " ", data))

    def text(self):
        return re.sub(r"\n\s*\n\s*\n+", "\n\n", "".join(self.out)).strip() + "\n"


def rust_documents():
    root = subprocess.run(
        ["rustc", "--print", "sysroot"], capture_output=True, text=True
    ).stdout.strip()
    base = root + "/share/doc/rust/html/"
    for book in RUST_BOOKS:
        for path in sorted(glob.glob(f"{base}{book}/**/*.html", recursive=True)):
            name = os.path.relpath(path, base)
            if re.search(
                r"print\.html|toc\.html|404|/(?:es|ja|zh|ko|fr)/|2018-edition|second-edition", name
            ):
                continue
            page = PageText()
            with open(path, errors="replace") as file:
                page.feed(file.read())
            if len(page.text()) > 800:
                chapter = "/".join(name.split("/")[:2])[: len(book) + 6]
                yield document("prose", "rust:" + chapter, name, page.text(), LICENCES["rust"])


def shingles(text, width=8):
    """Hashes of every run of eight words, one in four kept by its own hash."""
    words = text.split()
    runs = (
        zlib.crc32(" ".join(words[i : i + width]).encode()) for i in range(len(words) - width + 1)
    )
    return {run for run in runs if run % 4 == 0}


def drop_near_duplicates(documents, limit=0.2):
    """Removes held-out documents of which more than `limit` stands in train or the other split.

    Returns the kept documents and the mean share, before and after, by split and kind.
    """
    known = {split: set() for split in SPLITS}
    for entry in documents:
        entry["shingles"] = shingles(entry["text"])
        known[entry["split"]] |= entry["shingles"]
    figures = collections.defaultdict(lambda: [0, 0, 0, 0])
    kept = []
    for entry in documents:
        own = entry.pop("shingles")
        if entry["split"] != "train" and own:
            others = [known[split] for split in SPLITS if split != entry["split"]]
            if entry["split"] == "calibration":
                others = others[:1]
            shared = sum(1 for run in own if any(run in other for other in others))
            row = figures[entry["split"], entry["kind"]]
            row[0] += shared
            row[1] += len(own)
            if shared > limit * len(own):
                continue
            row[2] += shared
            row[3] += len(own)
        kept.append(entry)
    shares = {
        f"{split} {kind}": (row[0] / max(1, row[1]), row[2] / max(1, row[3]))
        for (split, kind), row in sorted(figures.items())
    }
    return kept, shares


def passages_of(documents, split):
    """Pieces of a split's own documents for dialogues to quote."""
    found = []
    for entry in documents:
        if entry["split"] != split or entry["kind"] != "prose":
            continue
        for piece in re.split(r"\n\n+(?=\S)", entry["text"]):
            if 300 < len(piece) < 1500:
                found.append((entry["name"], piece.strip()))
    return found


def generated_documents(documents, megabytes):
    """Dialogues, plans and recall for every split; sizes vary, long ones are frequent."""
    sizes = (1500, 3000, 6000, 12000, 18000, 24000)
    for split in SPLITS:
        passages = passages_of(documents, split)
        for kind, total in megabytes[split].items():
            written, seed = 0, 0
            while written < total * 1e6:
                size = sizes[seed % len(sizes)]
                if kind == "chat":
                    text = generate_text.dialogue(split, seed, size, passages)
                else:
                    text = getattr(generate_text, kind)(split, seed, size)
                licence = LICENCES["generated"] + (QUOTED if kind == "chat" else "")
                entry = document(kind, f"generated:{split}", f"{kind}-{seed}", text, licence)
                entry["split"] = split
                written += len(text)
                seed += 1
                yield entry


MEGABYTES = {
    "train": {"chat": 9, "plan": 6, "recall": 14},
    "calibration": {"chat": 0.4, "plan": 0.4, "recall": 0.4},
    "test": {"chat": 1, "plan": 1, "recall": 1},
}


def write_data_page(path, documents, shares):
    """DATA.md: origin, bytes and licence of every part, and the near-duplicate figures."""
    rows = collections.defaultdict(lambda: collections.Counter())
    packages = collections.defaultdict(lambda: collections.Counter())
    for entry in documents:
        origin = entry["group"].split(":")[0]
        rows[entry["kind"], origin][entry["split"]] += len(entry["text"])
        if origin in ("manual", "man-pages"):
            packages[entry["licence"]][
                entry["group"].split(":")[1] if origin == "manual" else origin
            ] += len(entry["text"])
    origins = {
        "python": ("Python library source and its tests, CPython as installed", LICENCES["python"]),
        "manual": ("English manual pages of Debian main packages", "by package, below"),
        "man-pages": (
            "Linux man-pages (manpages, manpages-dev)",
            "by page: GPL, BSD, verbatim-style free",
        ),
        "perl": ("Perl's own modules' pods", LICENCES["perl"]),
        "rust": ("The Rust books as installed with rustc", LICENCES["rust"]),
        "generated": (
            "generate_text.py; dialogues quote prose of their own split",
            LICENCES["generated"],
        ),
    }
    text = DATA_HEAD
    text += (
        "| regime | origin | licence | train | calibration | test |\n|---|---|---|---|---|---|\n"
    )
    for (kind, origin), counts in sorted(rows.items()):
        title, licence = origins[origin]
        text += f"| {kind} | {title} | {licence} |"
        text += "".join(f" {counts[split]:,} |" for split in SPLITS) + "\n"
    text += "\nBytes of text, after filtering.\n\n## Near-duplicates across the splits\n\n"
    text += DATA_SHINGLES
    text += "| split and regime | all documents | kept documents |\n|---|---|---|\n"
    for name, (before, after) in shares.items():
        text += f"| {name} | {100 * before:.2f} % | {100 * after:.2f} % |\n"
    text += "\n## Manual pages by licence of their package\n\n"
    for licence, counts in sorted(packages.items()):
        text += (
            f"- **{licence}**: "
            + ", ".join(f"{name} ({size:,})" for name, size in sorted(counts.items()))
            + "\n"
        )
    with open(path, "w") as file:
        file.write(text)


DATA_HEAD = """# What the demo models were trained on

Written by `corpus.py`. The text itself is not in the repository; the held-out prompts in `prompts/`
are. Everything was already installed with the toolchains of a Debian 12 development machine; no
registry and no data set was consulted. A manual page was taken only if its package lies in Debian
main, its copyright file names a licence on the script's list, and that file names neither the GFDL
nor a Creative Commons licence; every other page, any vendor's tool among them, was left out.

Splits go by source: a Python module with its tests, a Debian product, a Perl module family, a book
chapter, whole, by the hash of its name. Generated text deals its sentence forms, subjects and
syllables out to the splits, so no held-out sentence form was trained on.

"""
DATA_SHINGLES = """Share of a held-out split's eight-word runs (a hash-chosen quarter of them) that also occur in train
(for test: in train or calibration). Held-out documents above 20 % were removed.

"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--man-cache", default="/tmp")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    documents = [*python_documents(), *perl_documents(), *rust_documents()]
    documents += manual_documents(options.man_cache)
    documents += generated_documents(documents, MEGABYTES)
    documents, shares = drop_near_duplicates(documents)
    here = os.path.dirname(os.path.abspath(__file__))
    write_data_page(os.path.join(here, "DATA.md"), documents, shares)
    for split in SPLITS:
        with lzma.open(f"{options.out}/{split}.jsonl.xz", "wt", preset=4) as file:
            for entry in documents:
                if entry["split"] == split:
                    file.write(json.dumps(entry) + "\n")
    prompt_files.write(os.path.join(here, "prompts"), documents)
    for name, share in shares.items():
        print(name, share)


if __name__ == "__main__":
    main()
