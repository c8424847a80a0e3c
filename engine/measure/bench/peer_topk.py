"""Other people's exact top-k on normal scores, f32: microseconds a call, captured graphs of 16
calls on one set of buffers, median of 9 replays. The tables to put beside `test_gpu_topk
"[peers]"` of the same run. Values and indices are returned, in no order.

  python peer_topk.py [--path DIR]... [--peer NAME]... [--ours FILE]

--ours: what `test_gpu_topk "[peers]"` printed; then each peer's table is followed by its times over
ours (above 1: ours is ahead), the share of cells ahead and the worst. Ours ranks ties by index and
writes indices ascending; no peer does either.

Peers, looked for in each --path and then where python3 looks; one that is absent or does not run
here is a line, the others go on:
  torch        torch.topk
  cub          CUB's DeviceBatchedTopK, as FlashInfer's top_k calls it (FLASHINFER_TOPK_ALGO=cub)
  native       FlashInfer's own kernels (FLASHINFER_TOPK_ALGO=radix)
  flashinfer   FlashInfer's top_k (PyPI flashinfer-python, Apache-2.0), the backend that it chooses;
               compiled at first use, which takes minutes
  deep_select  DeepSelect's topk (github.com/deepseek-ai/DeepSelect, MIT). The wheel on PyPI
               (tokenspeed-deepselect 1.0.0.post20260910) has code for sm_100a and sm_103a alone: a
               Hopper GPU needs a build with DEEP_SELECT_CUDA_ARCHS=90a
A call whose values are not torch.topk's is "wrong"; one that cannot be captured is timed call by
call and marked e, one that refuses a shape is "-".
"""

import os

import torch

import peer_timing

CALLS = 16
LENGTHS = (8192, 16384, 32768, 65536, 131072, 262144, 524288)
ROWS = (1, 8, 32, 128)
KS = (64, 256, 1024, 2048)


def load_torch():
    return f"torch.topk, torch {torch.__version__}", lambda scores, k: torch.topk(
        scores, k, dim=-1, sorted=False)


def load_flashinfer(backend=None):
    from flashinfer.topk import top_k
    from flashinfer.version import __version__

    def select(scores, k):
        if backend:
            os.environ["FLASHINFER_TOPK_ALGO"] = backend
        else:
            os.environ.pop("FLASHINFER_TOPK_ALGO", None)
        return top_k(scores, k)

    return f"FlashInfer {__version__} top_k, {backend or 'its choice'}", select


def load_deep_select():
    import deep_select

    return f"DeepSelect {deep_select.__version__} topk", lambda scores, k: deep_select.topk(
        scores, k, indices_type=torch.int32)


PEERS = {
    "torch": load_torch,
    "cub": lambda: load_flashinfer("cub"),
    "native": lambda: load_flashinfer("radix"),
    "flashinfer": load_flashinfer,
    "deep_select": load_deep_select,
}


def agrees(found, scores, k):
    """The k largest values, and indices that point at them."""
    values, indices = found
    largest = torch.topk(scores, k, dim=-1).values
    pointed = torch.gather(scores, 1, indices.long())
    return all(torch.equal(torch.sort(x, dim=-1, descending=True).values, largest)
               for x in (values, pointed))


def cell(select, scores, k):
    """Microseconds, or None, and their text."""
    try:
        if not agrees(select(scores, k), scores, k):
            return None, f"{'wrong':>9}"
    except (AssertionError, NotImplementedError, RuntimeError, ValueError):
        torch.cuda.synchronize()
        return None, f"{'-':>9}"
    return peer_timing.cell([lambda: select(scores, k)] * CALLS, decimals=2)


def read_ours(path):
    """(rows, length, k): microseconds."""
    ours = {}
    for line in open(path, encoding="utf-8"):
        words = line.split()
        if words[:1] == ["ours"]:
            ours[tuple(int(word) for word in words[1:4])] = float(words[4])
    return ours


def print_ratios(times, ours):
    ratios = {key: us / ours[key] for key, us in times.items() if key in ours}
    if not ratios:
        return
    print("times over ours")
    for length in LENGTHS:
        for rows in ROWS:
            line = " ".join(f"{ratios[rows, length, k]:9.2f}" if (rows, length, k) in ratios
                            else f"{'':>9}" for k in KS)
            print(f"{rows:4d} {length:7d} {line}")
    ahead = sum(ratio >= 1.0 for ratio in ratios.values())
    worst = min(ratios, key=ratios.get)
    print(f"ours is ahead in {ahead} of {len(ratios)} cells; the worst is {ratios[worst]:.2f} "
          f"(rows {worst[0]}, length {worst[1]}, k {worst[2]})\n")


def print_table(name, ours):
    peer = peer_timing.loaded(
        name, PEERS, lambda select: select(torch.randn(1, LENGTHS[0], device="cuda"), KS[0]))
    if peer is None:
        return
    title, select = peer
    print(f"{title}, {torch.cuda.get_device_name()}")
    print(f"{'rows':>4} {'length':>7} " + " ".join(f"{'k ' + str(k):>9}" for k in KS))
    times = {}
    for length in LENGTHS:
        for rows in ROWS:
            torch.manual_seed(length + rows)  # the same scores for all
            scores = torch.randn(rows, length, device="cuda")
            cells = [cell(select, scores, k) for k in KS]
            times.update({(rows, length, k): us for k, (us, _) in zip(KS, cells) if us})
            print(f"{rows:4d} {length:7d} " + " ".join(text for _, text in cells), flush=True)
    print_ratios(times, ours)
    print()


def main():
    parser = peer_timing.parser_of(__doc__)
    parser.add_argument("--ours", help="what test_gpu_topk \"[peers]\" printed")
    arguments = peer_timing.parsed(parser, PEERS)
    ours = read_ours(arguments.ours) if arguments.ours else {}
    # A kernel that is not there ends a CUDA context: such a peer comes last.
    for name in arguments.peer:
        print_table(name, ours)


if __name__ == "__main__":
    main()
