"""Other people's speculative sampling of drafted chains, from logits to tokens: microseconds a
call, captured graphs of calls that walk over more logits than the second-level cache holds (up to
32 sets), median of 9 replays. The table to put beside `test_gpu_samplers "[wide]"` of the same run.

  python peer_sampling.py [--path DIR]... [--peer torch|compiled|flashinfer|flashinfer_cut]...
                          [--dtype f32|bf16|f16] [--cell VxBxGAMMA]...

Peers, looked for in each --path and then where python3 looks; one that is absent or does not run
here is a line, the others go on:
  torch           PyTorch operators one by one: softmax of both models, ratio, test, difference,
                  draw, as the reference of Optimized Speculative Sampling has them
  compiled        the same through torch.compile
  flashinfer      FlashInfer's softmax and chain_speculative_sampling (PyPI flashinfer-python and
                  apache-tvm-ffi, Apache-2.0); compiled at first use, which takes a minute
  flashinfer_cut  the same with its top_k_renorm_probs (50) and top_p_renorm_probs (0.95) of both
                  models between
Logits are normal with deviation 2, drafted tokens uniform: nearly every position rejects. One that
cannot be captured is timed call by call and marked e, one that refuses a shape is "-".
"""

import warnings

import torch

import peer_timing

POOL_BYTES = 160 << 20
MOST_SETS = 32
CELLS = tuple(f"{v}x{b}x{g}" for v in (128256, 151936, 262144)
              for b, g in ((1, 1), (1, 4), (1, 8), (1, 16), (1, 20), (4, 4), (16, 4), (16, 8)))
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def chain(target, draft, tokens):
    """Accepted drafts and the token drawn: [B, gamma + 1, V], [B, gamma, V], [B, gamma]."""
    p = torch.softmax(target.float(), dim=-1)
    q = torch.softmax(draft.float(), dim=-1)
    drafted = tokens.long().unsqueeze(-1)
    p_drafted = p[:, :-1].gather(-1, drafted).squeeze(-1)
    q_drafted = q.gather(-1, drafted).squeeze(-1)
    accepts = torch.rand_like(p_drafted) <= p_drafted / q_drafted
    accepted = accepts.long().cumprod(dim=-1).sum(dim=-1)
    rest = torch.clamp(p[:, :-1] - q, min=0.0)
    rest = torch.cat((rest, p[:, -1:]), dim=1)
    at = accepted.view(-1, 1, 1).expand(-1, 1, p.shape[-1])
    weights = rest.gather(1, at).squeeze(1)
    weights = torch.where(weights.sum(-1, keepdim=True) > 0, weights, p.gather(1, at).squeeze(1))
    return accepted, torch.multinomial(weights, 1)


def load_torch():
    return f"PyTorch {torch.__version__}, eager", chain


def load_compiled():
    import torch._dynamo

    torch._dynamo.config.recompile_limit = 64  # a shape a cell
    return f"PyTorch {torch.__version__}, torch.compile", torch.compile(chain, dynamic=False)


def load_flashinfer(cuts=False):
    import flashinfer
    from flashinfer import sampling

    def law(logits):
        rows = logits.reshape(-1, logits.shape[-1])
        probabilities = sampling.softmax(rows.float())
        if cuts:
            probabilities = sampling.top_k_renorm_probs(probabilities, 50)
            probabilities = sampling.top_p_renorm_probs(probabilities, 0.95)
        return probabilities.view(logits.shape)

    def run(target, draft, tokens):
        return sampling.chain_speculative_sampling(law(draft), tokens, law(target))

    name = ", top-k 50 and top-p 0.95" if cuts else ""
    return f"FlashInfer {flashinfer.__version__} chain_speculative_sampling{name}", run


PEERS = {"torch": load_torch, "compiled": load_compiled, "flashinfer": load_flashinfer,
         "flashinfer_cut": lambda: load_flashinfer(cuts=True)}


def inputs_of(vocab, batch, gamma, dtype):
    elements = batch * (2 * gamma + 1) * vocab
    size = elements * torch.finfo(dtype).bits // 8
    sets = min(MOST_SETS, max(1, -(-POOL_BYTES // size)))
    generator = torch.Generator(device="cuda").manual_seed(vocab + gamma)
    made = []
    for _ in range(sets):
        target = torch.randn(batch, gamma + 1, vocab, device="cuda", generator=generator) * 2
        draft = torch.randn(batch, gamma, vocab, device="cuda", generator=generator) * 2
        tokens = torch.randint(vocab, (batch, gamma), device="cuda", generator=generator)
        made.append((target.to(dtype), draft.to(dtype), tokens.int()))
    return made


def cell(run, vocab, batch, gamma, dtype):
    try:
        sets = inputs_of(vocab, batch, gamma, dtype)
    except RuntimeError:  # out of memory
        return f"{'-':>9}"
    return peer_timing.cell([lambda own=own: run(*own) for own in sets], decimals=1)[1]


def print_table(name, cells, dtype):
    peer = peer_timing.loaded(name, PEERS,
                              lambda run: run(*inputs_of(1024, 1, 1, DTYPES[dtype])[0]))
    if peer is None:
        return
    title, run = peer
    print(f"{title}, {dtype}, {torch.cuda.get_device_name()}")
    print(f"{'V':>7} {'B':>3} {'gamma':>5} {'us':>9}")
    for text in cells:
        vocab, batch, gamma = (int(part) for part in text.split("x"))
        us = cell(run, vocab, batch, gamma, DTYPES[dtype])
        print(f"{vocab:7d} {batch:3d} {gamma:5d} {us}", flush=True)
    print()


def main():
    parser = peer_timing.parser_of(__doc__)
    parser.add_argument("--dtype", choices=tuple(DTYPES), default="f32")
    parser.add_argument("--cell", action="append", help="V x B x gamma, as 128256x1x8")
    arguments = peer_timing.parsed(parser, PEERS)
    warnings.filterwarnings("ignore")  # of compilers, about how they reduce
    for name in arguments.peer:
        print_table(name, arguments.cell or CELLS, arguments.dtype)


if __name__ == "__main__":
    main()
