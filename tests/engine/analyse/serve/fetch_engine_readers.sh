#!/bin/sh
# Brings the settings' readers of vLLM 0.33.0, SGLang 0.5.23 and TensorRT-LLM into DIR
# (build/engine-readers if left out), for test_engine_readers: two wheels from PyPI, of which a few
# Python files stay, and one file of TensorRT-LLM's repository. What PyPI has of TensorRT-LLM is a
# stub of 10 kB whose build fetches a wheel of gigabytes from the vendor's own index; where its repository
# is not reached either, copy tensorrt_llm/llmapi/llm_args.py into DIR/tensorrt_llm/.
set -eu
dir=${1:-build/engine-readers}
mkdir -p "$dir"
wheels=$(mktemp -d "$dir/wheels.XXXXXX")
trap 'rm -rf "$wheels"' EXIT
python3 -m pip download --quiet --no-deps --dest "$wheels" vllm==0.33.0 sglang==0.5.23
python3 - "$wheels" "$dir" <<'PY'
import glob, sys, zipfile
wanted = ("vllm/v1/spec_decode/dynamic/utils.py", "vllm/config/speculative.py",
          "sglang/srt/speculative/adaptive_spec_params.py")
for wheel in glob.glob(sys.argv[1] + "/*.whl"):
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            if name in wanted or name.startswith("sglang/srt/arg_groups/fields/"):
                files.extract(name, sys.argv[2])
PY
trtllm=0004396720054fd8e205cbf616f21f0b57c6b412 # a version of its main branch of 2026
mkdir -p "$dir/tensorrt_llm"
python3 - "$dir/tensorrt_llm/llm_args.py" "$trtllm" <<'PY' || echo "without TensorRT-LLM's reader"
import sys, urllib.request
url = "https://raw.githubusercontent.com/NVIDIA/TensorRT-LLM/%s/tensorrt_llm/llmapi/llm_args.py"
try:
    text = urllib.request.urlopen(url % sys.argv[2], timeout=30).read()
except OSError as error:
    raise SystemExit(f"{url % sys.argv[2]}: {error}")
with open(sys.argv[1], "wb") as file:
    file.write(text)
PY
echo "readers in $dir"
