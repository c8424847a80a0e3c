"""torch.topk on normal scores, f32: microseconds a call, captured graphs of 16 calls on one set of
buffers, median of 9 replays. The table to put beside `test_gpu_topk "[timing]"` of the same run.

  python peer_topk_torch.py
"""

import torch

CALLS = 16
LENGTHS = (8192, 32768, 65536, 131072, 262144)
ROWS = (1, 16, 128)
KS = (16, 256, 2048)


def captured(call):
    """A graph of CALLS calls, or None where the operator cannot be captured."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(CALLS):
                call()
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    return graph


def time_us(run, calls):
    samples = []
    for _ in range(10):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1e3 / calls)
    return sorted(samples[1:])[4]


def main():
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}: torch.topk(sorted=False)")
    print(f"{'rows':>4} {'length':>7} " + " ".join(f"{'k ' + str(k):>9}" for k in KS))
    for length in LENGTHS:
        for rows in ROWS:
            scores = torch.randn(rows, length, device="cuda")
            line = []
            for k in KS:
                call = lambda: torch.topk(scores, k, dim=-1, sorted=False)
                graph = captured(call)
                us = time_us(graph.replay, CALLS) if graph else time_us(call, 1)
                line.append(f"{us:9.2f}" if graph else f"{us:8.2f}e")
            print(f"{rows:4d} {length:7d} " + " ".join(line), flush=True)


if __name__ == "__main__":
    main()
