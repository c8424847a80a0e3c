"""Trains the SmolLM2 pair on one GPU, in stages that can be stopped and taken up again.

    python3 train.py --gguf FILE --data DATA/data.npz --work WORK --out OUT STAGE:SECONDS ...

Stages in their order: `sample` (the dense model writes the answers), `nsa` and `lora` (the target
adapts, two arms from one start), `choose` (which arm ships), `draft` (the EAGLE-3 head; its first
call compares three kinds of head), `dense_draft` (a draft of the dense model), `stretch` (both at
16,384 tokens, nothing trained). WORK keeps everything a later call needs; OUT gets what is worth
keeping, copied whenever a checkpoint is written. A stage that is done is skipped.
"""

import argparse
import json
import os
import platform
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.dirname(here)]

import torch  # noqa: E402

import convert  # noqa: E402
import stage_dense_draft  # noqa: E402
import stage_draft  # noqa: E402
import stage_sample  # noqa: E402
import stage_stretch  # noqa: E402
import stage_target  # noqa: E402
from record_file import record_text  # noqa: E402
from sparse_model import base_weights, smollm2, tiny  # noqa: E402

STAGES = {
    "sample": stage_sample.run,
    "nsa": stage_target.run_nsa,
    "lora": stage_target.run_lora,
    "choose": stage_target.run_choose,
    "draft": stage_draft.run,
    "dense_draft": stage_dense_draft.run,
    "stretch": stage_stretch.run,
}


class Session:
    """What every stage shares: options, folders, the frozen weights, the record."""

    def __init__(self, options):
        self.options, self.work, self.out = options, options.work, options.out
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.compiled = self.device == "cuda"
        os.makedirs(self.work, exist_ok=True)
        os.makedirs(self.out, exist_ok=True)
        self.g = tiny(self.device) if options.tiny else smollm2(self.device)
        self.began = time.time()
        self.base = base_weights(self.g, self.model_folder(), self.device)
        self.log("base weights loaded,", self.device, torch.__version__)
        self.note("environment", self.environment())

    def model_folder(self):
        if self.options.random_base or self.options.tiny:
            return None
        folder = self.path("dense")
        if not os.path.exists(os.path.join(folder, "model.safetensors")):
            convert.convert(self.options.gguf, folder)
            self.log("converted")
        return folder

    def environment(self):
        name = torch.cuda.get_device_name() if self.compiled else platform.processor()
        return {
            "device": name,
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "python": platform.python_version(),
            "date": time.strftime("%Y-%m-%d"),
        }

    def path(self, name):
        return os.path.join(self.work, name)

    def log(self, *words):
        print(f"[{time.time() - self.began:7.1f}]", *words, flush=True)

    def left(self):
        """Seconds until this call must end."""
        return self.options.call_seconds - (time.time() - self.began)

    def record(self):
        path = self.path("record.json")
        if not os.path.exists(path):
            return {}
        with open(path) as file:
            return json.load(file)

    def note(self, name, value):
        """Adds to the record, in WORK and OUT."""
        found = self.record()
        found[name] = value
        text = record_text(found)
        for folder in (self.work, self.out):
            with open(os.path.join(folder, "record.json.tmp"), "w") as file:
                file.write(text)
            os.replace(file.name, os.path.join(folder, "record.json"))

    def save(self, name, value):
        torch.save(value, self.path(name + ".tmp"))
        os.replace(self.path(name + ".tmp"), self.path(name))

    def load(self, name):
        if not os.path.exists(self.path(name)):
            return None
        return torch.load(self.path(name), map_location=self.device, weights_only=True)

    def synchronize(self):
        if self.compiled:
            torch.cuda.synchronize()

    def memory(self):
        return f"{torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if self.compiled else "-"


def options_of():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stages", nargs="+", help="name:seconds")
    parser.add_argument("--gguf", default="")
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--call-seconds", type=float, default=560, help="this call ends by then")
    parser.add_argument("--draft-seconds", type=float, default=560, help="of all calls together")
    parser.add_argument("--arm-seconds", type=float, default=25, help="each kind of head's trial")
    parser.add_argument("--head", default="", help="begin the draft at this exported head")
    parser.add_argument("--head-seconds", type=float, default=0, help="of the schedule behind it")
    parser.add_argument("--rate", type=float, default=3e-3, help="of the head's matrices")
    parser.add_argument("--far-share", type=float, default=0.2, help="of the time, on long rows")
    parser.add_argument("--batch", type=int, default=2048, help="rows of the sampler")
    parser.add_argument("--tokens", type=int, default=32768, help="tokens of a training step")
    parser.add_argument("--near", type=int, default=4096, help="the target's usual length")
    parser.add_argument("--row", type=int, default=1024, help="the draft's usual length")
    parser.add_argument("--far", type=int, default=8192, help="the long rows' length")
    parser.add_argument("--vocab", type=int, default=16384, help="tokens that the head proposes")
    parser.add_argument("--held", type=int, default=65536, help="held-out tokens a regime, length")
    parser.add_argument("--stretched", type=int, default=16384, help="the length of `stretch`")
    parser.add_argument("--random-base", action="store_true", help="to try the script only")
    parser.add_argument("--tiny", action="store_true", help="to try the script on a CPU")
    return parser.parse_args()


def main():
    options = options_of()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.recompile_limit = 256
    torch._dynamo.config.accumulated_recompile_limit = 4096
    session = Session(options)
    for stage in options.stages:
        name, seconds = stage.split(":")
        session.log("STAGE", name, seconds)
        STAGES[name](session, min(float(seconds), session.left() - 15))
    session.log("END")


if __name__ == "__main__":
    main()
