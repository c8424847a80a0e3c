"""PyTorch's choice of the tokens that carry a share of several rows' attention weights, by sorting,
f32: microseconds a call, a captured graph of 16 calls, median of 9 replays; and call by call as an
eager program has it. The table to put beside `test_gpu_specattn "[timing]"` of the same run.

  python peer_top_p.py [--p 0.95]

Sort, sum, cut and union as libraries write them: torch.sort, cumsum, the least weight inside the
share, a comparison, any over the rows.
"""

import argparse

import torch

from peer_timing import captured, time_us

CALLS = 16
LENGTHS = (1024, 2048, 4096, 8192, 16384, 65536, 262144)
ROWS = (1, 7, 21)


def chosen(weights, p):
    ordered = torch.sort(weights, dim=-1, descending=True).values
    prefix = torch.cumsum(ordered, dim=-1)
    inside = (prefix < p * prefix[:, -1:]).sum(dim=-1, keepdim=True)
    return (weights >= torch.gather(ordered, 1, inside)).any(dim=0)


def many(weights, p):
    for _ in range(CALLS):
        chosen(weights, p)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--p", type=float, default=0.95)
    p = parser.parse_args().p
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}; us\n"
          "   rows       L   graph   eager  share kept")
    for rows in ROWS:
        for length in LENGTHS:
            weights = torch.randn(rows, length, device="cuda").pow(4)
            kept = chosen(weights, p).float().mean().item()
            graph = captured([lambda: chosen(weights, p)] * CALLS)
            print(f"{rows:7d} {length:7d} {time_us(graph.replay, CALLS):7.1f} "
                  f"{time_us(lambda: many(weights, p), CALLS):7.1f} {kept:11.3f}", flush=True)


if __name__ == "__main__":
    main()
