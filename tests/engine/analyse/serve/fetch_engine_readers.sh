#!/bin/sh
# Brings the settings' readers of vLLM 0.33.0 and SGLang 0.5.23 into DIR (build/engine-readers if left
# out), for test_engine_readers: two wheels from PyPI, of which a few Python files stay. TensorRT-LLM
# has none there: copy tensorrt_llm/llmapi/llm_args.py of its repository into DIR/tensorrt_llm/.
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
echo "readers in $dir"
