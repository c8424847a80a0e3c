#!/usr/bin/env python3
"""Makes the fixtures of this folder: small tokenizers trained on this project's own pages and code,
and what the packages `tokenizers` and `sentencepiece` make of some texts with them.

    pip install tokenizers sentencepiece
    python3 tests/data/tokenizers/make.py [NAME ...]    # from the checkout's root; all if none
"""
import io
import json
import pathlib
import sys

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers as pre
from tokenizers import processors, trainers

HERE = pathlib.Path(__file__).parent
LETTERS = sorted(pre.ByteLevel.alphabet())
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEXTS = [
    "", " ", "a", "Hello, world!  It's 12345 o'clock", "We'LL see\r\n\r\n  what\n \n\tcomes   ",
    "int main() {\n    return x[1] == 0x7f;\n}\n", "x=1;y=22;z=333;w=4444", "na\u00efve caf\u00e9 cafe\u0301",
    "\u00bd \u00b2 \u0661\u0662\u0663 \u0967 \u2167 \uff11", "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u3000\u3053\u3093\u306b\u3061\u306f",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f600!!",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab", "it\u2019s '\u017f 'RE", "a\u180eb \u0085 c\u00a0d\u2003e\ufeff",
    "\U00010d4a\U00010d4b \U0001ccf0 \U00031350 \ua7da", "a\u0334\u0345\u0898 \u1abf\u0300 q\u0323\u0307 \u212b \ufb01 \u32ff",
    "\x00\x01\x1f\x7f\ufffd\uffff\U0010ffff", "<|user|>hi<|end|>", " <mask>  <mask> x<tool>y <tool> z", "<|end", "Ġ ▁ <0x41>",
]


MORE = {  # texts of one tokenizer alone
    "falcon3": ["a,b.. $1 <x> ~`^| 12345.67 \u00bf\u00a7\u166d\u2e43\u061d\u3002!?", "don't--stop 1,234,567"],
    "normalised_tokens": ["a </s>", "a </s><s>", "</s>a", " \uff46\uff4f fo  x   y \n  z\n\n  ", "    "],
}


def corpus():
    files = sorted(pathlib.Path(".").glob("*/**/README.md"))[:40]
    files += sorted(pathlib.Path("model").glob("**/*.cpp"))[:20]
    return [line for file in files for line in file.read_text().splitlines(keepends=True)]


def trained(pre_tokenizer, size=480, normalizer=None, alphabet=LETTERS, decoder=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.normalizer = normalizer
    tokenizer.decoder = decoder or decoders.ByteLevel()
    special = [model["unk_token"]] if "unk_token" in model else []
    if model.get("byte_fallback"):
        special += [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False, special_tokens=special,
                                  initial_alphabet=alphabet)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def added(tokenizer):
    tokenizer.add_special_tokens(["<|user|>", "<|end|>"])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    tokenizer.add_tokens([AddedToken("<tool>", single_word=True, rstrip=True, normalized=False)])
    return tokenizer


def bos_before(tokenizer, *others):
    template = processors.TemplateProcessing(
        single="<|user|> $A <|end|>", pair="<|user|> $A <|end|> $B:1",
        special_tokens=[("<|user|>", tokenizer.token_to_id("<|user|>")),
                        ("<|end|>", tokenizer.token_to_id("<|end|>"))])
    return processors.Sequence([*others, template])


def gpt2():
    return added(trained(pre.ByteLevel(add_prefix_space=True)))


def smollm2():
    digits = pre.Digits(individual_digits=True)
    return added(trained(pre.Sequence([digits, pre.ByteLevel(add_prefix_space=False)])))


def llama3():
    split = pre.Split(Regex(LLAMA3), "isolated")
    bytes_only = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = added(trained(pre.Sequence([split, bytes_only]), ignore_merges=True))
    tokenizer.post_processor = bos_before(tokenizer, processors.ByteLevel(trim_offsets=False))
    return tokenizer


def qwen2():
    split = pre.Split(Regex(QWEN2), "isolated")
    bytes_only = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    return added(trained(pre.Sequence([split, bytes_only]), normalizer=normalizers.NFC()))


def llama2():
    """Metaspace by normalisers, bytes where the vocabulary has no character."""
    decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                 decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer = trained(pre.Split("\u2581", "merged_with_next"), 480, alphabet=[], decoder=decoder,
                        normalizer=normalizers.Sequence([normalizers.Prepend("\u2581"),
                                                         normalizers.Replace(" ", "\u2581")]),
                        unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    return added(tokenizer)


def metaspace():
    """No bytes: unknown characters become one token."""
    tokenizer = trained(pre.Metaspace(prepend_scheme="first"), 400, alphabet=[],
                        decoder=decoders.Metaspace(prepend_scheme="first"),
                        normalizer=normalizers.NFKC(), unk_token="<unk>", fuse_unk=True)
    return added(tokenizer)


def behaviours():
    """Every behaviour of a split, one after the other."""
    splits = [pre.Split(Regex(r"\d+"), "merged_with_previous"), pre.Split(",", "removed"),
              pre.Split(Regex(r"[.!?]"), "contiguous"), pre.Split(Regex(r"\s"), "merged_with_next"),
              pre.Split(Regex(r"\w+"), "isolated", invert=True),
              pre.ByteLevel(add_prefix_space=False, use_regex=False)]
    return trained(pre.Sequence(splits), 320)


def falcon3():
    """Punctuation first, then bytes, digits and threes of them."""
    threes = pre.Split(Regex("[0-9][0-9][0-9]"), "isolated")
    return added(trained(pre.Sequence([
        pre.Punctuation("contiguous"), pre.ByteLevel(add_prefix_space=False),
        pre.Digits(individual_digits=False), threes]), 320))


def normalised_tokens():
    """Added tokens that the normaliser changes, as older files of Llama 2 have them, and one of
    spaces that takes those on both sides."""
    decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                 decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer = trained(pre.Sequence([]), 380, alphabet=[], decoder=decoder,
                        normalizer=normalizers.Sequence([
                            normalizers.NFKC(), normalizers.Prepend("\u2581"),
                            normalizers.Replace(" ", "\u2581")]),
                        unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=True)
                                  for t in ("<s>", "</s>")])
    tokenizer.add_tokens([AddedToken("\uff46\uff4f", normalized=True),
                          AddedToken("  ", lstrip=True, rstrip=True, normalized=False)])
    return tokenizer


def pairs_as_texts(document):
    """The older spelling of merges."""
    document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
    return document


def case_of(tokenizer, text):
    plain = tokenizer.encode(text, add_special_tokens=False).ids
    return {"text": text, "ids": tokenizer.encode(text).ids, "inner": plain,
            "decoded": tokenizer.decode(plain, skip_special_tokens=False),
            "without_special": tokenizer.decode(plain)}


def no_special(tokenizer, text):
    tokenizer.encode_special_tokens = True
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    tokenizer.encode_special_tokens = False
    return ids


def without_added_bytes(document):
    """The trainer adds all special tokens; bytes of a fallback are looked for in no text."""
    kept = [t for t in document["added_tokens"] if not t["content"].startswith("<0x")]
    document["added_tokens"] = kept
    return document


def write(name, tokenizer):
    document = without_added_bytes(json.loads(tokenizer.to_str()))
    if name == "gpt2":
        document = pairs_as_texts(document)
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(text)
    read = Tokenizer.from_str(text)
    cases = [case_of(read, text) | {"letters": no_special(read, text)} for text in TEXTS + MORE.get(name, [])]
    expected = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (folder / "expected.json").write_text("[\n" + expected + "\n]\n")


def write_sentencepiece():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=model, vocab_size=500, model_type="bpe",
        byte_fallback=True, character_coverage=0.99, normalization_rule_name="identity",
        remove_extra_whitespaces=False, minloglevel=2)
    folder = HERE / "sentencepiece"
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.model").write_bytes(model.getvalue())
    read = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    cases = [{"text": text, "inner": read.encode(text), "decoded": read.decode(read.encode(text))}
             for text in TEXTS if "<" not in text]
    expected = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (folder / "expected.json").write_text("[\n" + expected + "\n]\n")


for make in (gpt2, smollm2, llama3, qwen2, llama2, metaspace, behaviours, falcon3,
             normalised_tokens):
    if make.__name__ in (sys.argv[1:] or [make.__name__]):
        write(make.__name__, make())
if "sentencepiece" in (sys.argv[1:] or ["sentencepiece"]):
    write_sentencepiece()
