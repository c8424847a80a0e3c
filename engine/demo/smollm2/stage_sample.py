"""The dense model answers the conversations of data.py; sparse and dense text differ too little.

One round is `batch` rows. The first round holds the test rows, each twice: at temperature 0.7 and
greedily, unless WORK has them already; the train rows' temperatures are drawn. Beside each file of
rows lies one of bits: which of the tokens the model chose, the others having been given to it.
"""

import os
import shutil
import time

import numpy as np
import torch

from sampler import ANSWER, ENDS, Sampler

TRAIN_TEMPERATURES = (0.0, 0.5, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7, 0.7, 0.8, 0.8, 0.8, 0.9, 1.0)
TEST_TEMPERATURE = 0.7


def rounds(ask, tests, batch):
    """Yields (name, queue rows, temperatures): the tests first, padded with train rows."""
    tests = tests[: batch // 4]
    random = np.random.default_rng([3, len(ask)])
    hot = random.choice(TRAIN_TEMPERATURES, len(ask))
    fill = batch - 2 * len(tests)
    temperature = np.repeat([TEST_TEMPERATURE, 0.0], len(tests))
    yield "first", np.concatenate([tests, tests, ask[:fill]]), np.append(temperature, hot[:fill])
    for number, at in enumerate(range(fill, len(ask) - batch + 1, batch)):
        yield f"{number:03d}", ask[at : at + batch], hot[at : at + batch]


def chosen_by_model(queue, rows):
    """Which tokens of `rows` the model chose: the sampler's walk along the queues, once more."""
    everyone, cursor = np.arange(len(queue)), np.ones(len(queue), np.int64)
    out = np.zeros(rows.shape, bool)
    for place in range(1, rows.shape[1]):
        out[:, place] = queue[everyone, cursor] == ANSWER
        cursor += ~out[:, place] | np.isin(rows[:, place], ENDS)
        cursor = cursor.clip(max=queue.shape[1] - 1)
    return out


def keep_rows(session, split, name, queue, rows):
    path = session.path(f"samples-{split}-{name}.npy")
    bits = np.packbits(chosen_by_model(queue, rows), axis=1)
    np.save(session.path(f"chosen-{split}-{name}.npy"), bits)
    np.save(path + ".tmp.npy", rows.astype(np.uint16))
    os.replace(path + ".tmp.npy", path)
    if split != "train":
        shutil.copy(path, session.out)


def run(session, seconds):
    options, g = session.options, session.g
    if "sample" in session.record():
        return
    began, made = time.time(), 0
    arrays = np.load(options.data)
    ask, tests = arrays["ask.train"].astype(np.int64), arrays["ask.test"].astype(np.int64)
    if os.path.exists(session.path("samples-test-hot.npy")):
        for split, name in (("test", "hot"), ("greedy", "greedy")):
            rows = np.load(session.path(f"samples-{split}-{name}.npy")).astype(np.int64)
            keep_rows(session, split, name, tests[: len(rows)], rows)
        tests = tests[:0]
    if options.tiny:
        ask, tests = (np.where(x == 65535, x, x % g.vocab_size) for x in (ask, tests))
    sampler = Sampler(g, session.base, options.batch, options.row, session.compiled)
    torch.manual_seed(len(ask))
    count, spans = min(len(tests), options.batch // 4), []
    for name, queue, temperature in rounds(ask, tests, options.batch):
        t = time.time()
        hot = torch.tensor(temperature, dtype=torch.float32, device=session.device)
        out = sampler.run(torch.from_numpy(queue).to(session.device), hot).cpu().numpy()
        spans.append(time.time() - t)
        if name == "first" and count:
            keep_rows(session, "test", "hot", queue[:count], out[:count])
            keep_rows(session, "greedy", "greedy", queue[:count], out[count : 2 * count])
            queue, out = queue[2 * count :], out[2 * count :]
        if len(out):
            keep_rows(session, "train", name, queue, out)
            made += out.size
        session.log(f"round {name}: {spans[-1]:.1f} s, {made / 1e6:.1f} M tokens", session.memory())
        if time.time() - began + spans[-1] > seconds:
            break
    rate = options.batch * options.row / min(spans)
    figures = {"train_tokens": made, "rows": options.row, "tokens_per_s": rate}
    figures |= {"seconds": time.time() - began, "batch": options.batch}
    session.note("sample", figures)
    session.log("sampled", figures)
    del sampler
    if session.compiled:
        torch.cuda.empty_cache()
