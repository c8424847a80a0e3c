"""Hands a settings file to its serving engine's own reader, as far as that runs without a GPU.

    engine_readers.py DIR vllm|sglang|trtllm FILE.yaml     prints {"1": length, "2": ...} for batches

DIR is what fetch_engine_readers.sh filled. Unknown keys and whatever the reader refuses end it with
an exception.
"""
import ast
import importlib.util
import json
import sys
import types
from pathlib import Path

import yaml

BATCHES = [1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 256, 257, 500]


def fields_of(path, class_name):
    """Annotated names of a class, without running its file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            return {n.target.id for n in node.body if isinstance(n, ast.AnnAssign)}
    raise SystemExit(f"{path} has no class {class_name}")


def module_from(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_keys(keys, fields):
    unknown = [key for key in keys if key not in fields]
    if unknown:
        raise SystemExit(f"unknown keys: {unknown}")


def vllm(readers, settings):
    config = settings["speculative-config"]
    check_keys(config, fields_of(readers / "vllm/config/speculative.py", "SpeculativeConfig"))
    if "num_speculative_tokens_per_batch_size" not in config:
        return {batch: config["num_speculative_tokens"] for batch in BATCHES}
    dynamic = module_from(readers / "vllm/v1/spec_decode/dynamic/utils.py", "dynamic")
    lengths = dynamic.build_dynamic_sd_schedule_lookup(
        config["num_speculative_tokens_per_batch_size"], max(BATCHES),
        config["num_speculative_tokens"])
    return {batch: lengths[batch] for batch in BATCHES}


def stub(name, **attributes):
    module = types.ModuleType(name)
    for key, value in attributes.items():
        setattr(module, key, value)
    sys.modules[name] = module


def sglang(readers, settings):
    names = {key.replace("-", "_"): value for key, value in settings.items()}
    known = set()  # the server's arguments, by group
    for group in (readers / "sglang/srt/arg_groups/fields").glob("*.py"):
        known |= {n.target.id for n in ast.walk(ast.parse(group.read_text()))
                  if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    check_keys(names, known)
    if not names.get("speculative_adaptive"):
        return {batch: names["speculative_num_steps"] for batch in BATCHES}
    none = lambda *args, **kwargs: None
    for package in ("sglang", "sglang.srt", "sglang.srt.arg_groups", "sglang.srt.speculative"):
        stub(package)
    stub("sglang.srt.arg_groups.overrides", resolved_view=none, resolving_view=none)
    stub("sglang.srt.runtime_context", attn_dp_enabled_of=none)
    stub("sglang.srt.speculative.spec_info", SpeculativeAlgorithm=None)
    stub("sglang.srt.utils", log_info_on_rank0=none)
    adaptive = module_from(readers / "sglang/srt/speculative/adaptive_spec_params.py", "adaptive")
    path = names["speculative_adaptive_config"]
    steps = names["speculative_num_steps"]
    if steps not in adaptive.resolve_candidate_steps_from_config(path):
        raise SystemExit(f"{steps} steps are no candidate")  # as speculative_hook.py refuses it
    params = adaptive.AdaptiveSpeculativeParams(steps, path)
    return {batch: params.get_steps_for_batch(batch) for batch in BATCHES}


def trtllm(readers, settings):
    """DecodingBaseConfig's fields and its validator of the schedule, taken out of llm_args.py."""
    import pydantic

    tree = ast.parse((readers / "tensorrt_llm/llm_args.py").read_text())
    known = {n.target.id for n in ast.walk(tree) if isinstance(n, ast.AnnAssign)
             and isinstance(n.target, ast.Name)}
    base = next(n for n in tree.body
                if isinstance(n, ast.ClassDef) and n.name == "DecodingBaseConfig")
    kept = ("max_draft_len", "max_total_draft_tokens", "max_concurrency", "draft_len_schedule",
            "validate_draft_len_schedule_and_sort")
    base.body = [n for n in base.body
                 if getattr(getattr(n, "target", n), "id", getattr(n, "name", None)) in kept]
    base.bases = [ast.Name("BaseModel", ast.Load())]
    base.keywords = [ast.keyword("extra", ast.Constant("forbid"))]
    scope = {name: getattr(pydantic, name) for name in pydantic.__all__}
    exec("from typing import *\nfrom pathlib import Path", scope)
    exec(compile(ast.fix_missing_locations(ast.Module([base], [])), "llm_args", "exec"), scope)
    config = dict(settings["speculative_config"])
    check_keys(config, known)
    read = scope["DecodingBaseConfig"](**{k: v for k, v in config.items() if k in kept})
    schedule = read.draft_len_schedule or {read.max_concurrency or max(BATCHES): read.max_draft_len}

    def length(batch):
        return next((schedule[end] for end in sorted(schedule) if batch <= end), 0)

    return {batch: length(batch) for batch in BATCHES}


if __name__ == "__main__":
    where, engine, file = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    given = yaml.safe_load(file.read_text())
    read = {"vllm": vllm, "sglang": sglang, "trtllm": trtllm}[engine]
    print(json.dumps(read(where, given) if given else {batch: 0 for batch in BATCHES}))
