#!/usr/bin/env python3
"""Writes unicode_ranges.cpp: where the Unicode tables of the `tokenizers` package differ from those
of the libraries that this folder uses. Needs Python 3.11 (unicodedata 14.0, as PCRE2 10.42) and
`pip install tokenizers unicodedata2`; asks the package itself, character by character.

    python3 make_unicode_ranges.py > unicode_ranges.cpp
"""
import unicodedata

import unicodedata2
from tokenizers import Regex, normalizers, pre_tokenizers

# M whole: a mark changed from Mn to Mc.
CATEGORIES = "Lu Ll Lt Lm Lo M Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cf".split()
# Scripts that gained characters after Unicode 14, of those that patterns ask for.
SCRIPTS = ("Arabic Bengali Cyrillic Devanagari Greek Han Hangul Hebrew Hiragana Kannada Katakana "
           "Khmer Latin Malayalam Tamil Telugu Thai").split()
CHARACTERS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def matched(pattern):
    splitter = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    text = "".join(map(chr, CHARACTERS))
    return {ord(c) for piece, _ in splitter.pre_tokenize_str(text) for c in piece}


def ranges(characters):
    out = []
    for c in sorted(characters):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def later_assigned():
    """Of each category, what the package's regular expressions have and Unicode 14 has not."""
    rows = []
    for category in CATEGORIES:
        theirs = matched(rf"\p{{{category}}}")
        ours = {c for c in CHARACTERS if unicodedata.category(chr(c)).startswith(category)}
        assert ours <= theirs, category
        rows += [(first, last, category) for first, last in ranges(theirs - ours)]
    return rows


def later_in_scripts():
    new = {c for c in CHARACTERS if unicodedata.category(chr(c)) == "Cn"}
    return [(first, last, script) for script in SCRIPTS
            for first, last in ranges(matched(rf"\p{{{script}}}") & new)]


def inert():
    """What the package's normalisers, of Unicode 9, leave alone and Unicode does not."""
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    seconds = set()  # of canonical compositions
    for c in CHARACTERS:
        parts = unicodedata2.decomposition(chr(c)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            if nfd.normalize_str(chr(c)) == chr(c):
                seconds |= {int(p, 16) for p in parts if int(p, 16) > 0x1000}
    found = set(seconds) | {0x11A7}  # no trailing consonant, though utf8proc 2.8 joins it
    for c in CHARACTERS:
        moves = unicodedata2.combining(chr(c)) or unicodedata2.decomposition(chr(c))
        if not moves or nfkd.normalize_str(chr(c)) != chr(c):
            continue
        # A mark of any class but 1 and 240 changes places with one of these.
        marked = chr(c) + "\u0334", "\u0345" + chr(c)
        if all(nfd.normalize_str(text) == text for text in marked):
            found.add(c)
    return ranges(found)


def punctuation():
    """What the package's pre-tokenizer Punctuation calls so: ASCII's, and those of its tables."""
    removes = pre_tokenizers.Punctuation("removed")
    kept = set()
    for c in CHARACTERS:
        if not removes.pre_tokenize_str(chr(c)):
            kept.add(c)
    return ranges(kept)


def rows_text(rows):
    return ",\n".join("    {0x%x, 0x%x%s}" % (r[0], r[1], ', "%s"' % r[2] if len(r) > 2 else "")
                      for r in rows)


print(f"""// Written by make_unicode_ranges.py: a table, not to be edited.
#include "engine/io/tokenizer/unicode_ranges.h"

namespace versieve::engine {{
namespace {{

constexpr PropertyRange kLaterAssigned[] = {{
{rows_text(later_assigned() + later_in_scripts())}}};

constexpr CharacterRange kInert[] = {{
{rows_text(inert())}}};

constexpr CharacterRange kPunctuation[] = {{
{rows_text(punctuation())}}};

}}  // namespace

std::span<const PropertyRange> later_assigned() {{
  return kLaterAssigned;
}}

std::span<const CharacterRange> inert_in_normal_forms() {{
  return kInert;
}}

std::span<const CharacterRange> punctuation() {{
  return kPunctuation;
}}

}}  // namespace versieve::engine""")
