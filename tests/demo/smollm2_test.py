"""Does engine/demo/smollm2 read a GGUF file and merge what ships as its pages say?

Every expected number is written out or made here in another way than there. Needs numpy alone.
"""

import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from fractions import Fraction

import numpy as np

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../engine/demo/smollm2")
sys.path[:0] = [FOLDER, os.path.dirname(os.path.abspath(FOLDER))]

import convert  # noqa: E402
import gguf_file  # noqa: E402
import make  # noqa: E402
import merge  # noqa: E402
import packed  # noqa: E402
import quantised  # noqa: E402
import record_file  # noqa: E402
import tensor_file  # noqa: E402

F32, Q4_1, Q8_0 = 0, 3, 8


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf(tensors, fields=b"", count=0, version=3):
    """A file of [(name, shape in GGUF order, kind, bytes)] and packed fields."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), count) + fields
    data = b""
    for name, shape, kind, raw in tensors:
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        head += struct.pack("<IQ", kind, len(data))
        data += raw + b"\0" * (-len(raw) % 32)
    return head + b"\0" * (-len(head) % 32) + data


def half(value):
    return np.array([value], "<f2").tobytes()


class Folder(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.addCleanup(self.room.cleanup)

    def file(self, name, data):
        path = os.path.join(self.room.name, name)
        with open(path, "wb") as target:
            target.write(data)
        return path

    def refused(self, data):
        with self.assertRaises(gguf_file.BadFile) as caught:
            gguf_file.read(self.file("bad.gguf", data))
        return str(caught.exception)


class Reader(Folder):
    def test_kinds_and_fields(self):
        quarter = half(0.5) + half(-1.0) + bytes(i | (15 - i) << 4 for i in range(16))
        eighth = half(0.25) + np.arange(-16, 16, dtype=np.int8).tobytes()
        plain = np.arange(6, dtype="<f4")
        fields = text("a.name") + struct.pack("<I", 8) + text("smollm")
        fields += text("a.list") + struct.pack("<IIQ", 9, 5, 3) + struct.pack("<3i", -1, 0, 7)
        fields += text("a.base") + struct.pack("<If", 6, 0.5)
        tensors = [
            ("q4", (32, 1), Q4_1, quarter),
            ("q8", (16, 2), Q8_0, eighth),
            ("plain", (3, 2), F32, plain.tobytes()),
        ]
        found, read = gguf_file.read(self.file("x.gguf", gguf(tensors, fields, 3)))
        self.assertEqual(found, {"a.name": "smollm", "a.list": [-1, 0, 7], "a.base": 0.5})
        low, high = np.arange(16) * 0.5 - 1, (15 - np.arange(16)) * 0.5 - 1
        np.testing.assert_array_equal(read["q4"], np.concatenate([low, high])[None])
        np.testing.assert_array_equal(read["q8"], np.arange(-16, 16).reshape(2, 16) / 4)
        np.testing.assert_array_equal(read["plain"], plain.reshape(2, 3))

    def test_two_blocks_have_each_their_scale(self):
        blocks = b"".join(half(s) + half(s * 10) + bytes([0x21] * 16) for s in (1.0, 2.0))
        _, read = gguf_file.read(self.file("x.gguf", gguf([("w", (32, 2), Q4_1, blocks)])))
        np.testing.assert_array_equal(
            read["w"], [[11.0] * 16 + [12.0] * 16, [22.0] * 16 + [24.0] * 16]
        )

    def test_bad_files_get_a_sentence(self):
        good = gguf([("w", (32,), Q8_0, half(1.0) + bytes(32))])
        self.assertIn("does not begin with GGUF", self.refused(b"GGML" + good[4:]))
        self.assertIn("version 1", self.refused(gguf([], version=1)))
        self.assertIn("ends within its header", self.refused(good[:30]))
        self.assertIn("does not fit the file", self.refused(good[:70]))
        self.assertIn("kind 2;", self.refused(gguf([("w", (32,), 2, bytes(18))])))
        # 31 weights are no whole block.
        self.assertIn("does not fit", self.refused(gguf([("w", (31,), Q8_0, bytes(34))])))

    def test_rows_of_q_and_k_go_back(self):
        # One head of width 4 in llama.cpp's order holds the rows 0, 2, 1, 3: pairs side by side.
        stored = np.array([[0.0], [2.0], [1.0], [3.0], [4.0], [6.0], [5.0], [7.0]])
        np.testing.assert_array_equal(convert.unpermuted(stored, 2), np.arange(8.0)[:, None])
        names = convert.model_weights(
            {"blk.3.attn_k.weight": stored, "output_norm.weight": 1}, 4, 2
        )
        self.assertEqual(
            list(names), ["model.layers.3.self_attn.k_proj.weight", "model.norm.weight"]
        )
        with self.assertRaises(gguf_file.BadFile):
            convert.model_weights({"blk.0.attn_q.bias": stored}, 4, 2)


def nearest_bf16(value):
    """By exact fractions: the nearest number of 8 significant bits, ties to the even one."""
    exact, scale = Fraction(value), Fraction(1)
    if exact == 0:
        return 0.0
    while abs(exact) / scale >= 256:
        scale *= 2
    while abs(exact) / scale < 128:
        scale /= 2
    return float(round(exact / scale) * scale)


class Merge(unittest.TestCase):
    def test_rounds_once(self):
        # Through float32 the first would be the tie 1 + 2^-8, which goes down to 1.
        values = [1 + 2**-8 + 2**-40, 1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8 - 2**-50, 0.0, 255.5]
        expected = [1 + 2**-7, 1.0, 1 + 2**-6, -1 - 2**-7, 0.0, 256.0]
        np.testing.assert_array_equal(merge.rounded_to_bf16(np.array(values)), expected)
        random = np.random.default_rng(1).normal(size=500) * 10.0 ** np.arange(-25, 25).repeat(10)
        got = merge.rounded_to_bf16(random)
        np.testing.assert_array_equal(got, [nearest_bf16(x) for x in random])
        np.testing.assert_array_equal(got, tensor_file.Bf16(got).values())

    def test_product_and_sum(self):
        random = np.random.default_rng(2)
        w, a, b = (
            tensor_file.Bf16(random.normal(size=shape)).values()
            for shape in ((6, 5), (3, 5), (6, 3))
        )
        got = merge.merged(w, a, b)
        for i in range(6):
            for j in range(5):
                exact = Fraction(float(w[i, j]))
                exact += sum(Fraction(float(b[i, r])) * Fraction(float(a[r, j])) for r in range(3))
                self.assertEqual(got[i, j], nearest_bf16(exact))
        with self.assertRaises(gguf_file.BadFile):
            merge.merged(w, b, a)

    def test_target(self):
        dense = {"x.q_proj.weight": np.ones((2, 2), np.float32), "n": np.ones(2, np.float32)}
        adapter = {
            "x.q_proj.lora_a": np.array([[1.0, 2.0]], np.float32),
            "x.q_proj.lora_b": np.array([[1.0], [-1.0]], np.float32),
            "x.compress_key": np.zeros((1, 4), np.float32),
        }
        out = merge.target_weights(dense, adapter)
        self.assertEqual(set(out), {*dense, "x.compress_key"})
        np.testing.assert_array_equal(out["x.q_proj.weight"], [[2.0, 3.0], [0.0, -1.0]])
        for lost in ("x.q_proj.lora_a", "x.q_proj.lora_b"):
            short = {name: values for name, values in adapter.items() if name != lost}
            with self.assertRaises(gguf_file.BadFile):
                merge.target_weights(dense, short)
        with self.assertRaises(gguf_file.BadFile):
            merge.target_weights({"n": dense["n"]}, adapter)

    def test_draft(self):
        embedding = np.arange(12, dtype=np.float32).reshape(6, 2)
        dense = {"model.embed_tokens.weight": embedding}
        head = {
            "draft_tokens": np.array([1, 2, 5]),
            "lm_head.lora_a": np.array([[1.0, -1.0]], np.float32),
            "lm_head.lora_b": np.array([[0.0], [0.5], [2.0]], np.float32),
            "fc.weight": embedding,
        }
        weights, maps = merge.draft_weights(dense, head)
        self.assertEqual(set(weights), {"fc.weight", "lm_head.weight"})
        np.testing.assert_array_equal(weights["lm_head.weight"], [[2, 3], [4.5, 4.5], [12, 9]])
        np.testing.assert_array_equal(maps["d2t"], [1, 1, 3])
        np.testing.assert_array_equal(maps["t2d"], [False, True, True, False, False, True])
        for wrong in ([2, 1, 5], [1, 1, 5], [1, 2, 6], [-1, 2, 5], []):
            with self.assertRaises(gguf_file.BadFile):
                merge.draft_weights(dense, {**head, "draft_tokens": np.array(wrong, np.int64)})

    def test_a_head_in_eight_bits_gives_what_its_weights_give(self):
        random = np.random.default_rng(6)
        dense = {"model.embed_tokens.weight": tensor_file.Bf16(random.normal(size=(9, 8))).values()}
        head = {"draft_tokens": np.array([0, 3, 7])}
        for name, shape in (
            ("lm_head.lora_a", (4, 8)),
            ("lm_head.lora_b", (3, 4)),
            ("fc.weight", (8, 2)),
        ):
            head |= quantised.stored(name, random.normal(size=shape), (1, shape[1]), 127)
        head = {name: getattr(x, "values", lambda x=x: x)() for name, x in head.items()}
        got, _ = merge.draft_weights(dense, head)
        wanted, _ = merge.draft_weights(dense, quantised.whole(head))
        self.assertEqual(set(got), {"fc.weight", "lm_head.weight"})
        for name, values in wanted.items():
            np.testing.assert_array_equal(got[name], values)

    def test_dense_draft(self):
        ones = np.ones((2, 2), np.float32)
        dense = {f"model.layers.{i}.mlp.up_proj.weight": i * ones for i in range(5)}
        dense |= {"model.embed_tokens.weight": 9 * ones, "model.norm.weight": ones[0]}
        shipped = {
            "model.layers.2.mlp.up_proj.weight.levels": np.array([[7, -3], [0, 1]], np.int8),
            "model.layers.2.mlp.up_proj.weight.scale": np.array([[0.5], [2.0]], np.float32),
            "model.layers.3.mlp.up_proj.weight": 5 * ones,
            "model.norm.weight": 3 * ones[0],
        }
        out = merge.dense_draft_weights(dense, shipped)
        wanted = {**dense, "model.norm.weight": 3 * ones[0]}
        del wanted["model.layers.4.mlp.up_proj.weight"]
        wanted["model.layers.2.mlp.up_proj.weight"] = [[3.5, -1.5], [0.0, 2.0]]
        wanted["model.layers.3.mlp.up_proj.weight"] = 5 * ones
        self.assertEqual(set(out), set(wanted))
        for name, values in wanted.items():
            np.testing.assert_array_equal(out[name], values)
        config = merge.dense_draft_config({"num_hidden_layers": 5, "hidden_size": 2}, out)
        self.assertEqual(config, {"num_hidden_layers": 4, "hidden_size": 2})
        for name, values in (
            ("model.layers.9.mlp.up_proj.weight", ones),
            ("model.norm.weight", ones),
        ):
            with self.assertRaises(gguf_file.BadFile):
                merge.dense_draft_weights(dense, {**shipped, name: values})


class Quantised(Folder):
    TILES = (((6, 8), (1, 8)), ((6, 8), (6, 1)), ((4, 64), (1, 32)), ((4, 6), (2, 3)))

    def test_levels_times_scale_is_rounded_once(self):
        random = np.random.default_rng(3)
        for (rows, columns), tile in self.TILES:
            levels = random.integers(-127, 128, (rows, columns)).astype(np.int8)
            shape = rows // tile[0], columns // tile[1]
            scale = tensor_file.Bf16(random.normal(size=shape) * 1e-3).values()
            got = quantised.weights(levels, scale)
            for i in range(rows):
                for j in range(columns):
                    exact = Fraction(int(levels[i, j]))
                    exact *= Fraction(float(scale[i // tile[0], j // tile[1]]))
                    self.assertEqual(got[i, j], nearest_bf16(exact))

    def test_what_levels_can_say_comes_back(self):
        random = np.random.default_rng(4)
        for most in (7, 127):
            for (rows, columns), tile in self.TILES:
                levels = random.integers(-most, most + 1, (rows, columns))
                levels[:: tile[0], :: tile[1]] = -most  # the largest of every tile
                powers = 2.0 ** random.integers(-9, 3, (rows // tile[0], columns // tile[1]))
                values = levels * quantised.spread(powers, levels.shape)
                stored = quantised.stored("m", values, tile, most)
                np.testing.assert_array_equal(stored["m.levels"], levels)
                np.testing.assert_array_equal(stored["m.scale"].values(), powers)

    def test_rounding_is_within_half_a_level(self):
        values = np.array([[1.0, -0.5, 0.1, 0.0], [0.0, 0.0, 0.0, 0.0]])
        stored = quantised.stored("m", values, (1, 4), 7)
        # 1/7 as bf16 is 0.142578125: 7, 3.507 and 0.701 of it.
        np.testing.assert_array_equal(stored["m.levels"], [[7, -4, 1, 0], [0, 0, 0, 0]])
        self.assertEqual(stored["m.scale"].values()[0, 0], np.float32(0.142578125))
        path = os.path.join(self.room.name, "q.safetensors")
        tensor_file.write(path, {**stored, "n": tensor_file.Bf16(np.ones(3))})
        whole = quantised.whole(tensor_file.read(path))
        self.assertEqual(set(whole), {"m", "n"})
        np.testing.assert_array_equal(whole["n"], np.ones(3))
        np.testing.assert_array_equal(whole["m"][1], np.zeros(4))
        self.assertLessEqual(np.abs(whole["m"] - values).max(), 0.142578125 / 2 + 2**-9)


class Shipped(Folder):
    def test_packing_is_undone(self):
        for size in (0, 1, 2, 7, 1000):
            data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8).tobytes()
            self.assertEqual(packed.unpacked(packed.packed(data)), data)
        self.assertEqual(packed.unpacked(packed.packed(b"abcdef")), b"abcdef")

    def unpacked(self, name):
        with open(os.path.join(FOLDER, name), "rb") as file:
            data = file.read()
        self.assertLess(len(data), 16 << 20)
        raw = packed.unpacked(data)
        self.assertLess(len(raw), 16 << 20)
        return tensor_file.read(self.file("x.safetensors", raw))

    def test_files_hold_what_a_pair_needs(self):
        adapter, head = self.unpacked("adapter.safetensors.xz"), self.unpacked(
            "head.safetensors.xz"
        )
        self.assertEqual(len(adapter), 30 * 12)
        for i in range(30):
            stem = f"model.layers.{i}.self_attn."
            self.assertEqual(adapter[stem + "g_proj.weight"].shape, (27, 576))
            self.assertEqual(adapter[stem + "intra_block_pe"].shape, (3, 32, 64))
            self.assertEqual(adapter[stem + "k_proj.lora_b"].shape, (192, 32))
        head = quantised.whole(head)
        self.assertEqual(head["fc.weight"].shape, (576, 3 * 576))
        self.assertEqual(head["lm_head.lora_b"].shape, (len(head["draft_tokens"]), 128))
        draft = self.unpacked("dense_draft.safetensors.xz")
        self.assertLessEqual(max(np.abs(x).max() for x in draft.values() if x.dtype == np.int8), 7)
        draft = quantised.whole(draft)
        self.assertEqual(len(draft), 2 * 9 + 1)
        for i in (2, 3):
            self.assertEqual(draft[f"model.layers.{i}.mlp.down_proj.weight"].shape, (576, 1536))
        every = (*adapter.values(), *head.values(), *draft.values())
        self.assertTrue(all(np.isfinite(x).all() for x in every))


class Command(Folder):
    def make(self, *arguments):
        command = [sys.executable, os.path.join(FOLDER, "make.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def test_a_wrong_wheel_leaves_nothing(self):
        out = os.path.join(self.room.name, "out")
        for name, data in (("wrong.whl", b"PK"), ("absent.whl", None)):
            path = os.path.join(self.room.name, name)
            if data is not None:
                self.file(name, data)
            done = self.make(out, "--wheel", path)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1)
            self.assertIn(name, done.stderr)
            self.assertEqual(os.listdir(out), [])
        self.assertEqual(self.make().returncode, 2)

    def test_checksums_name_every_file(self):
        made = make.recorded()["made"]
        for folder in ("dense", "nsa"):
            for name in ("config.json", "model.safetensors", "tokenizer.json"):
                self.assertIn(f"{folder}/{name}", made)
        for name in ("nsa/draft", "dense/draft"):
            self.assertIn(f"{name}/model.safetensors", made)
        long = make.wanted_at(16384)
        self.assertEqual(set(long), set(made))
        changed = {name for name in made if long[name] != made[name]}
        self.assertEqual(
            changed,
            {f"{folder}/config.json" for folder in make.FOLDERS}
            | {f"{folder}/tokenizer_config.json" for folder in ("dense", "nsa")},
        )
        self.assertEqual(make.wanted_at(8192), made)

    def test_the_record_is_as_its_writers_write_it(self):
        with open(os.path.join(FOLDER, "record.json")) as file:
            text = file.read()
        self.assertEqual(record_file.record_text(json.loads(text)), text)

    def test_checksums_are_those_of_the_shipped_files(self):
        wanted = make.recorded()["shipped"]
        self.assertEqual(set(wanted), set(make.SHIPPED))
        for name in make.SHIPPED:
            with open(os.path.join(FOLDER, name + ".xz"), "rb") as file:
                raw = packed.unpacked(file.read())
            self.assertEqual(hashlib.sha256(raw).hexdigest(), wanted[name])

    def test_a_longer_context_is_stretched_where_all_tokens_are_seen(self):
        plain = {"max_position_embeddings": 8192, "rope_theta": 1e5}
        scaling = {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 8192}
        longer = {"max_position_embeddings": 16384, "rope_theta": 1e5}
        self.assertEqual(make.stretched(plain), {**longer, "rope_scaling": scaling})
        head = {**plain, "sliding_window": 512}
        self.assertEqual(make.stretched(head), {**longer, "sliding_window": 512})
        self.assertEqual(self.make(self.room.name, "--context", "9000").returncode, 2)


if __name__ == "__main__":
    unittest.main()
