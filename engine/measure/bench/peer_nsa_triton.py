"""GPU-busy time of the public Triton NSA's decode operators, N queries by batch expansion.

The operators are imported from a checkout of XunhaoLai/native-sparse-attention-triton (--path) and run
as shipped: query i is a sequence of L + i + 1 tokens that shares one cache through a batch dimension of
stride 0; its window is a strided view. Times are sums of kernel times of torch.profiler over one call
(warm caches: the same buffers again and again), median over repetitions, by part.

Prints one JSON object: {"device", "torch", "triton", "cells": [{"n", "context", "busy_us", "routing_us",
"selection_us", "window_us", "gate_us"}]}. Exit codes: 0 done, 1 the operators cannot be run here (the
object is {"error": sentence}), 2 usage.
"""

import argparse
import json
import statistics
import sys

HEADS, KV_HEADS, HEAD_DIM = 32, 8, 64
CMP_BLOCK, CMP_STRIDE, SEL_BLOCK, SEL_COUNT, WINDOW = 32, 16, 64, 16, 512


def give_up(sentence):
    print(json.dumps({"error": sentence}))
    sys.exit(1)


def import_operators(path):
    sys.path.insert(0, path)
    try:
        import torch
        import triton
    except ImportError as error:
        give_up(f"python3 has no {error.name}, which the public operators need")
    if not torch.cuda.is_available():
        give_up("torch sees no CUDA device")
    try:
        from native_sparse_attention.ops import (
            compressed_attention_decode,
            flash_attention_decode,
            topk_sparse_attention_decode,
        )
    except ImportError as error:
        give_up(f"no decode operators in {path}: {error}")
    operators = (compressed_attention_decode, topk_sparse_attention_decode, flash_attention_decode)
    return torch, triton, operators


class Layer:
    """One layer's caches for a chain of `queries` draft tokens behind `context` committed ones."""

    def __init__(self, torch, operators, context, queries):
        self.torch, self.operators, self.queries = torch, operators, queries
        torch.manual_seed(1)
        tokens = context + queries
        compressed = (tokens - CMP_BLOCK) // CMP_STRIDE + 1

        def random(*shape):
            return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

        def shared(cache):
            return cache.unsqueeze(0).expand(queries, -1, -1, -1)

        self.q = random(queries, HEADS, HEAD_DIM)
        self.gates = torch.sigmoid(random(queries, HEADS, 3))
        k, v = random(tokens, KV_HEADS, HEAD_DIM), random(tokens, KV_HEADS, HEAD_DIM)
        self.k, self.v = shared(k), shared(v)
        self.k_cmp = shared(random(compressed, KV_HEADS, HEAD_DIM))
        self.v_cmp = shared(random(compressed, KV_HEADS, HEAD_DIM))
        self.lengths = torch.arange(context + 1, tokens + 1, device="cuda", dtype=torch.int32)
        self.cmp_lengths = ((self.lengths - CMP_BLOCK) // CMP_STRIDE + 1).to(torch.int32)
        window = min(WINDOW, context)
        row = KV_HEADS * HEAD_DIM

        def windows(cache):
            shape = (queries, window, KV_HEADS, HEAD_DIM)
            return cache.as_strided(shape, (row, row, HEAD_DIM, 1), (context + 1 - window) * row)

        self.k_window, self.v_window = windows(k), windows(v)
        self.window_lengths = torch.full((queries,), window, device="cuda", dtype=torch.int32)

    def route(self):
        return self.operators[0](
            self.q, self.k_cmp, self.v_cmp, self.lengths, self.cmp_lengths,
            CMP_BLOCK, CMP_STRIDE, SEL_BLOCK, SEL_COUNT,
        )

    def select(self, indices):
        return self.operators[1](self.q, self.k, self.v, indices, SEL_BLOCK, self.lengths)

    def slide(self):
        return self.operators[2](self.q, self.k_window, self.v_window, self.window_lengths)

    def gate(self, outputs):
        return sum(self.gates[..., i, None] * output for i, output in enumerate(outputs))


def busy_us(torch, work):
    """Sum of kernel times of one call, in us."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        work()
        torch.cuda.synchronize()
    total = 0.0
    for event in recorded.key_averages():
        time = getattr(event, "self_device_time_total", None)
        total += event.self_cuda_time_total if time is None else time
    return total


def measure(torch, operators, context, queries, repetitions):
    layer = Layer(torch, operators, context, queries)
    compressed, indices = layer.route()  # compiles, and gives the other parts their inputs
    outputs = (compressed, layer.select(indices), layer.slide())
    parts = {
        "routing_us": layer.route,
        "selection_us": lambda: layer.select(indices),
        "window_us": layer.slide,
        "gate_us": lambda: layer.gate(outputs),
    }
    layer.gate(outputs)
    cell = {"n": queries, "context": context}
    for name, work in parts.items():
        busy_us(torch, work)
        cell[name] = statistics.median(busy_us(torch, work) for _ in range(repetitions))
    cell["busy_us"] = sum(cell[name] for name in parts)
    return cell


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", required=True, help="checkout of the public repository")
    parser.add_argument("--cell", action="append", required=True, help="CONTEXTxN, may be repeated")
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = parser.parse_args()
    torch, triton, operators = import_operators(arguments.path)
    cells = []
    for text in arguments.cell:
        context, queries = (int(part) for part in text.split("x"))
        cells.append(measure(torch, operators, context, queries, arguments.repetitions))
    print(json.dumps({
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cells": cells,
    }))


if __name__ == "__main__":
    main()
