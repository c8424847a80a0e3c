"""What the scripts peer_*.py share that time other people's PyTorch operators: captured graphs of
calls, their median time, and peers that are loaded one by one."""

import argparse
import sys

import torch

SAMPLES = 10  # the first is left out


def captured(calls):
    """A graph of these calls, or None where the operators cannot be captured."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        calls[0]()
        calls[0]()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for call in calls:
                call()
    except RuntimeError:
        torch.cuda.synchronize()
        return None
    return graph


def time_us(run, calls):
    """Microseconds a call, the median, of a run that makes so many."""
    samples = []
    for _ in range(SAMPLES):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) * 1e3 / calls)
    return sorted(samples[1:])[(SAMPLES - 1) // 2]


def cell(calls, decimals):
    """Microseconds a call and their text: marked e where the calls are timed one by one, "-" and
    None where the operator refuses."""
    try:
        graph = captured(calls)
        us = time_us(graph.replay, len(calls)) if graph else time_us(calls[0], 1)
        return us, f"{us:9.{decimals}f}" if graph else f"{us:8.{decimals}f}e"
    except (AssertionError, NotImplementedError, RuntimeError, ValueError):
        torch.cuda.synchronize()
        return None, f"{'-':>9}"


def loaded(name, peers, probe):
    """Title and operator of a peer that runs `probe` here, or None with a line that says why not."""
    try:
        title, run = peers[name]()
        probe(run)
        torch.cuda.synchronize()
    except Exception as error:  # whatever a stranger's package throws
        print(f"{name}: not run: {str(error).splitlines()[0] if str(error) else repr(error)}\n")
        return None
    return title, run


def parsed(parser, peers):
    """The arguments with --path and --peer; peers in the order in which they are listed."""
    parser.add_argument("--path", action="append", default=[], help="folder with packages")
    parser.add_argument("--peer", action="append", choices=tuple(peers), help="all if left out")
    arguments = parser.parse_args()
    sys.path[:0] = arguments.path
    arguments.peer = sorted(arguments.peer or peers, key=list(peers).index)
    return arguments


def parser_of(text):
    return argparse.ArgumentParser(description=text.splitlines()[0])
