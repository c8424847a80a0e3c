"""Other people's exact top-k on normal scores, f32: microseconds a call, captured graphs of 16
calls on one set of buffers, median of 9 replays. The tables to put beside `test_gpu_topk
"[timing]"` of the same run. Values and indices are returned, in no order.

  python peer_topk.py [--path DIR]... [--peer torch|flashinfer|deep_select]...

Peers, looked for in each --path and then where python3 looks; one that is absent or does not run
here is a line, the others go on:
  torch        torch.topk
  flashinfer   FlashInfer's top_k (PyPI flashinfer-python, Apache-2.0), the backend that it chooses;
               compiled at first use, which takes minutes
  deep_select  DeepSelect's topk (github.com/deepseek-ai/DeepSelect, MIT). The wheel on PyPI
               (tokenspeed-deepselect 1.0.0.post20260910) has code for sm_100a and sm_103a alone: a
               Hopper GPU needs a build with DEEP_SELECT_CUDA_ARCHS=90a
A call whose values are not torch.topk's is "wrong"; one that cannot be captured is timed call by
call and marked e, one that refuses a shape is "-".
"""

import argparse
import sys

import torch

CALLS = 16
LENGTHS = (8192, 32768, 65536, 131072, 262144)
ROWS = (1, 16, 128)
KS = (16, 256, 2048)


def load_torch():
    return f"torch.topk, torch {torch.__version__}", lambda scores, k: torch.topk(
        scores, k, dim=-1, sorted=False)


def load_flashinfer():
    import flashinfer

    return f"FlashInfer {flashinfer.__version__} top_k", flashinfer.top_k


def load_deep_select():
    import deep_select

    return f"DeepSelect {deep_select.__version__} topk", lambda scores, k: deep_select.topk(
        scores, k, indices_type=torch.int32)


PEERS = {"torch": load_torch, "flashinfer": load_flashinfer, "deep_select": load_deep_select}


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


def agrees(found, scores, k):
    """The k largest values, and indices that point at them."""
    values, indices = found
    largest = torch.topk(scores, k, dim=-1).values
    pointed = torch.gather(scores, 1, indices.long())
    return all(torch.equal(torch.sort(x, dim=-1, descending=True).values, largest)
               for x in (values, pointed))


def cell(select, scores, k):
    try:
        if not agrees(select(scores, k), scores, k):
            return f"{'wrong':>9}"
        graph = captured(lambda: select(scores, k))
        us = time_us(graph.replay, CALLS) if graph else time_us(lambda: select(scores, k), 1)
        return f"{us:9.2f}" if graph else f"{us:8.2f}e"
    except (AssertionError, NotImplementedError, RuntimeError, ValueError):
        torch.cuda.synchronize()
        return f"{'-':>9}"


def print_table(name):
    try:
        title, select = PEERS[name]()
        select(torch.randn(1, LENGTHS[0], device="cuda"), KS[0])
        torch.cuda.synchronize()
    except Exception as error:  # whatever a stranger's package throws
        print(f"{name}: not run: {str(error).splitlines()[0] if str(error) else repr(error)}\n")
        return
    print(f"{title}, {torch.cuda.get_device_name()}")
    print(f"{'rows':>4} {'length':>7} " + " ".join(f"{'k ' + str(k):>9}" for k in KS))
    for length in LENGTHS:
        for rows in ROWS:
            torch.manual_seed(length + rows)  # the same scores for all
            scores = torch.randn(rows, length, device="cuda")
            line = " ".join(cell(select, scores, k) for k in KS)
            print(f"{rows:4d} {length:7d} {line}", flush=True)
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", action="append", default=[], help="folder with packages")
    parser.add_argument("--peer", action="append", choices=tuple(PEERS), help="all if left out")
    arguments = parser.parse_args()
    sys.path[:0] = arguments.path
    # A kernel that is not there ends a CUDA context: such a peer comes last.
    for name in sorted(arguments.peer or PEERS, key=list(PEERS).index):
        print_table(name)


if __name__ == "__main__":
    main()
