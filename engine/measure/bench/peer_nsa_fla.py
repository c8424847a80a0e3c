"""Time of flash-linear-attention's NSA (`fla.ops.nsa.parallel_nsa`), N query rows behind a cache.

The package is imported from a folder (--path), never shipped, and run as its cached decoding takes
it: one sequence of L + N tokens whose last N are the queries, a chain. It needs 16 query heads a KV
head or more, compresses by the mean of each 64-token block and selects 16 blocks of 64 (the first
and the last two forced); the window is 512 tokens of its own `flash_attn`, or of PyTorch's copy of
that operator where the package is absent, over the last 512 + N - 1 keys alone. Its kernels are
tuned anew for each cell.

    whole     parallel_nsa: pools the whole cache, routes, attends, gates, adds the window
    kept      the same with pooled keys and values kept, as a decoder would keep them
    given     selection, window, gates; blocks are given, neighbours share --overlap of them
    pooling, routing (compressed branch and ranking), selection, window: parts

Times are CUDA graphs of one call on each of enough copies of the cache that three times the L2
passes (cold; 96 copies at most), or of eight calls on one copy (warm); replayed, median, us a call.

Prints one JSON object: {"device", "package", "licence", "torch", "triton", "window_by", "cache",
"cells": [{"heads", "kv_heads", "n", "context", "overlap", "whole_us", "kept_us", "given_us",
"pooling_us", "routing_us", "selection_us", "window_us"}]}. Exit codes: 0 done, 1 the operators
cannot be run here (the object is {"error": sentence}), 2 usage.
"""

import argparse
import gc
import json
import os
import random
import statistics
import sys
import warnings

BLOCK, COUNT, WINDOW = 64, 16, 512
COLD_PASSES, MOST_SETS, WARM_CALLS, WARM_UP, REPLAYS = 3, 96, 8, 3, 15


def give_up(sentence):
    print(json.dumps({"error": sentence}))
    sys.exit(1)


class Operators:
    """What is timed, from the package and from whoever has the window."""

    def __init__(self, path):
        sys.path.insert(0, path)
        os.environ["FLA_CACHE_RESULTS"] = "0"  # a tuned choice on disk is of another cell
        warnings.simplefilter("ignore")
        try:
            import torch
            import triton
        except ImportError as error:
            give_up(f"python3 has no {error.name}, which flash-linear-attention needs")
        if not torch.cuda.is_available():
            give_up("torch sees no CUDA device")
        try:
            import fla
            from fla.ops.nsa import compression, parallel
            from fla.ops.utils import pooling
        except ImportError as error:
            give_up(f"no flash-linear-attention with NSA in {path}: {error}")
        self.torch, self.triton, self.package = torch, triton, fla.__version__
        self.parallel, self.compression, self.pooling = parallel, compression, pooling
        self.window_by = self.take_window()
        self.tuners = [self.tuner(kernel) for kernel in (
            pooling.mean_pooling_fwd_kernel, compression.parallel_nsa_compression_fwd_kernel,
            parallel.parallel_nsa_kernel_topk, parallel.parallel_nsa_fwd_kernel)]

    def take_window(self):
        """The window's operator, on the keys it sees and no others; returns whose it is."""
        flash = self.parallel.flash_attn_func
        name = "flash_attn"
        if flash is None:
            name = "PyTorch's flash attention"

            def flash(q, k, v, causal, window_size):
                left, right = window_size
                return self.torch.ops.aten._flash_attention_forward(
                    q, k, v, None, None, q.shape[1], k.shape[1], 0.0, causal, False,
                    window_size_left=left, window_size_right=right)[0]

        def window(q, k, v, causal, window_size):
            seen = WINDOW + q.shape[1] - 1
            return flash(q, k[:, -seen:], v[:, -seen:], causal=causal, window_size=window_size)

        self.parallel.flash_attn_func = window
        return name

    def tuner(self, kernel):
        while not hasattr(kernel, "configs"):
            kernel = kernel.fn
        do_bench = self.triton.testing.do_bench
        kernel.do_bench = lambda call, quantiles: do_bench(
            call, warmup=1, rep=4, quantiles=quantiles)
        return kernel

    def tune_anew(self):
        for tuner in self.tuners:
            tuner.cache.clear()

    def pool(self, cache):
        return self.pooling.mean_pooling(cache, BLOCK)

    def slide(self, q, k, v):
        return self.parallel.flash_attn_func(q, k, v, causal=True, window_size=(WINDOW - 1, 0))


def drawn_blocks(kv_heads, queries, context, overlap, seed):
    """[N, H, n]: neighbours share that part of their blocks as near as forced ones allow."""
    draw = random.Random(seed)
    lists = []
    previous = [None] * kv_heads
    for query in range(queries):
        own = (context + query) // BLOCK
        row = []
        for head in range(kv_heads):
            count = min(COUNT, own + 1)
            chosen = {0, max(own - 1, 0), own}
            if previous[head] is not None:
                old = sorted(previous[head] - chosen)
                kept = min(max(round(overlap * count) - len(chosen), 0), len(old))
                chosen |= set(draw.sample(old, kept))
                fresh = [b for b in range(own + 1) if b not in chosen and b not in previous[head]]
            else:
                fresh = [b for b in range(own + 1) if b not in chosen]
            chosen |= set(draw.sample(fresh, min(len(fresh), count - len(chosen))))
            rest = [b for b in range(own + 1) if b not in chosen]
            chosen |= set(draw.sample(rest, count - len(chosen)))
            previous[head] = chosen
            row.append(sorted(chosen) + [-1] * (COUNT - count))
        lists.append(row)
    return lists


class Layer:
    """Copies of one layer's cache of L + N tokens, and the queries that are its last N."""

    def __init__(self, operators, heads, kv_heads, head_dim, context, queries, cold):
        self.operators, self.torch = operators, operators.torch
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.context, self.queries, self.cold = context, queries, cold
        self.tokens = context + queries
        self.token_bytes = kv_heads * head_dim * 2 * 2  # keys and values, bf16
        self.l2_bytes = self.torch.cuda.get_device_properties(0).L2_cache_size
        self.torch.manual_seed(1)
        self.q = self.random(1, queries, heads, head_dim)
        self.gates = [self.torch.sigmoid(self.random(1, queries, heads)) for _ in range(3)]
        self.sets = self.most_sets()
        k, v = (self.random(1, self.tokens, kv_heads, head_dim) for _ in range(2))
        self.k, self.v = self.copies(k), self.copies(v)
        self.k_pooled, self.v_pooled = (self.copies(operators.pool(cache)) for cache in (k, v))

    def random(self, *shape):
        return self.torch.randn(*shape, device="cuda", dtype=self.torch.bfloat16)

    def copies(self, tensor):
        return tensor.expand(self.sets, *tensor.shape[1:]).contiguous().split(1)

    def most_sets(self):
        free, _ = self.torch.cuda.mem_get_info()
        room = int(0.6 * free) // (self.tokens * self.token_bytes)
        return max(min(MOST_SETS, room), 2) if self.cold else 1

    def sets_for(self, touched_bytes):
        return min(max(-(-COLD_PASSES * self.l2_bytes // touched_bytes) + 1, 2), self.sets)

    def whole(self, i):
        g_cmp, g_slc, g_swa = self.gates
        return self.operators.parallel.parallel_nsa(
            self.q, self.k[i], self.v[i], g_cmp, g_slc, g_swa, block_counts=COUNT,
            block_size=BLOCK, window_size=WINDOW)

    def route(self, i):
        """The compressed branch, and the blocks that it ranks first."""
        scale = self.head_dim ** -0.5
        compressed, lse = self.operators.compression.parallel_nsa_compression(
            q=self.q, k=self.k_pooled[i], v=self.v_pooled[i], TK=self.tokens, block_size=BLOCK,
            scale=scale)
        return compressed, self.operators.parallel.parallel_nsa_topk(
            q=self.q, k=self.k_pooled[i], lse=lse, TK=self.tokens, block_counts=COUNT,
            block_size=BLOCK, scale=scale)

    def select(self, i, blocks):
        return self.operators.parallel.ParallelNSAFunction.apply(
            self.q, self.k[i], self.v[i], blocks, COUNT, BLOCK, self.head_dim ** -0.5, None)

    def slide(self, i):
        return self.operators.slide(self.q, self.k[i], self.v[i])

    def given(self, i, blocks):
        _, g_slc, g_swa = self.gates
        selected = self.select(i, blocks) * g_slc.unsqueeze(-1)
        return self.torch.addcmul(selected, self.slide(i), g_swa.unsqueeze(-1))

    def kept(self, i):
        g_cmp, g_slc, g_swa = self.gates
        compressed, blocks = self.route(i)
        out = self.select(i, blocks) * g_slc.unsqueeze(-1)
        out = self.torch.addcmul(out, compressed, g_cmp.unsqueeze(-1))
        return self.torch.addcmul(out, self.slide(i), g_swa.unsqueeze(-1))

    def pool(self, i):
        return self.operators.pool(self.k[i]), self.operators.pool(self.v[i])

    def blocks_bytes(self, blocks):
        """Bytes of distinct blocks: what a call on them fetches at least."""
        distinct = sum(len(set(blocks[0, :, g].flatten().tolist()) - {-1})
                       for g in range(self.kv_heads))
        return distinct * BLOCK * self.token_bytes // self.kv_heads

    def time_us(self, call, touched_bytes):
        torch = self.torch
        sets = self.sets_for(touched_bytes)
        calls = sets if self.cold else WARM_CALLS
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            call(0)
            call(0)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(calls):
                call(i % sets)
        samples = []
        for _ in range(WARM_UP + REPLAYS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            samples.append(begin.elapsed_time(end) * 1e3 / calls)
        return statistics.median(samples[WARM_UP:])


def far(torch, one, other):
    difference = (one.double() - other.double()).norm() / other.double().norm()
    return not float(difference) < 2e-2  # NaN is far


def check(layer):
    """The parts add up to the whole, and the window is the one that is meant."""
    torch = layer.torch
    if far(torch, layer.kept(0), layer.whole(0)):
        give_up("the parts of parallel_nsa do not add up to its whole")
    seen = min(WINDOW + layer.queries - 1, layer.tokens)
    group = layer.heads // layer.kv_heads
    k, v = (cache[0][0, -seen:].float().repeat_interleave(group, 1) for cache in (layer.k, layer.v))
    scores = torch.einsum("nhd,thd->hnt", layer.q[0].float(), k) * layer.head_dim ** -0.5
    newest = torch.arange(layer.queries)[:, None] + seen - layer.queries
    age = newest - torch.arange(seen)[None, :]
    hidden = ((age < 0) | (age >= WINDOW)).cuda()
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
    if far(torch, layer.slide(0)[0], torch.einsum("hnt,thd->nhd", weights, v)):
        give_up("the window's operator does not attend the last 512 tokens of each query")


def measure(operators, shape, head_dim, context, queries, overlaps, cold):
    operators.tune_anew()
    operators.torch.cuda.empty_cache()  # the last cell's copies
    heads, kv_heads = shape
    layer = Layer(operators, heads, kv_heads, head_dim, context, queries, cold)
    check(layer)
    cache = layer.tokens * layer.token_bytes
    pooled = cache // BLOCK
    window = min(WINDOW + queries - 1, layer.tokens) * layer.token_bytes
    routed = layer.blocks_bytes(layer.route(0)[1])
    common = {
        "heads": heads, "kv_heads": kv_heads, "n": queries, "context": context,
        "whole_us": layer.time_us(layer.whole, cache),
        "kept_us": layer.time_us(layer.kept, pooled + max(routed, window)),
        "pooling_us": layer.time_us(layer.pool, cache),
        "routing_us": layer.time_us(layer.route, pooled),
        "window_us": layer.time_us(layer.slide, window),
    }
    cells = []
    for overlap in overlaps if queries > 1 else [1.0]:
        lists = drawn_blocks(kv_heads, queries, context, overlap, seed=1)
        blocks = operators.torch.tensor([lists], dtype=operators.torch.int32, device="cuda")
        distinct = layer.blocks_bytes(blocks)
        cells.append(dict(
            common, overlap=overlap,
            selection_us=layer.time_us(lambda i: layer.select(i, blocks), distinct),
            given_us=layer.time_us(lambda i: layer.given(i, blocks), max(distinct, window))))
    return cells


def pair(separator):
    def parse(text):
        first, second = text.split(separator)
        return int(first), int(second)
    return parse


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", required=True, help="folder with the package fla")
    parser.add_argument("--heads", type=pair("/"), action="append", required=True,
                        help="query/KV heads as 64/4, may be repeated")
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--cell", type=pair("x"), action="append", required=True,
                        help="CONTEXTxN, may be repeated")
    parser.add_argument("--overlap", type=float, action="append", help="may be repeated; 0.2")
    parser.add_argument("--cache", choices=("cold", "warm"), default="cold")
    arguments = parser.parse_args()
    operators = Operators(arguments.path)
    gc.collect()
    gc.freeze()  # a capture collects garbage first: not that of the imports
    cells = []
    with operators.torch.no_grad():
        for shape in arguments.heads:
            for context, queries in arguments.cell:
                cells += measure(operators, shape, arguments.head_dim, context, queries,
                                 arguments.overlap or [0.2], arguments.cache == "cold")
    print(json.dumps({
        "device": operators.torch.cuda.get_device_name(),
        "package": f"flash-linear-attention {operators.package}",
        "licence": "MIT",
        "torch": operators.torch.__version__,
        "triton": operators.triton.__version__,
        "window_by": operators.window_by,
        "cache": arguments.cache,
        "cells": cells,
    }))


if __name__ == "__main__":
    main()
