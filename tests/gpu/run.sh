#!/usr/bin/env bash
# Everything that needs a GPU, from prebuilt programs: what the machine is, the GPU test programs,
# the lossless sample, thousands of batches, checks of memory, races and barriers by small cases,
# and a sweep. Run from the repository's root. One part after another: programs side by side share the
# GPU by slices of time, and eleven had not ended in 147 s (H100).
#   tests/gpu/run.sh [BUILD_FOLDER] [OUT_FOLDER] [SWEEP]
# defaults: build/release, $OUT or build/gpu, quick. Each part has its own time limit; logs go to
# OUT, the table comes last. Exit code 0: every part passed or had nothing to test; 1: one failed.
set -uo pipefail

build=${1:-build/release}
out=${2:-${OUT:-build/gpu}}
sweep=${3:-quick}
versieve=$build/bin/versieve
mkdir -p "$out"
table=()
failed=0

add_row() { table+=("$(printf '%-28s %-10s %6ss  %s' "$1" "$2" "$3" "$4")"); }

# part NAME LIMIT_S COMMAND...: runs it with its limit, keeps its output, remembers how it went.
part() {
  local name=$1 limit=$2 begin=$SECONDS code verdict
  shift 2
  printf '== %s\n' "$name"
  timeout --kill-after=10 "$limit" "$@" >"$out/$name.log" 2>&1
  code=$?
  case $code in
    0) verdict=passed ;;
    124 | 137) verdict=timeout failed=1 ;;
    *) verdict=failed failed=1 ;;
  esac
  [ "$verdict" = passed ] || tail -n 40 "$out/$name.log"
  add_row "$name" "$verdict" $((SECONDS - begin)) "exit $code, $out/$name.log"
}

# The checker slows kernels a hundredfold: only cases that ask for little, and no timing.
find_sanitizer() {
  [ -n "${COMPUTE_SANITIZER:-}" ] && echo "$COMPUTE_SANITIZER" && return
  command -v compute-sanitizer && return
  local path
  for path in "${CUDA_HOME:-/usr/local/cuda}"/bin/compute-sanitizer \
    /usr/local/cuda*/bin/compute-sanitizer "$build"/bin/compute-sanitizer; do
    [ -x "$path" ] && echo "$path" && return
  done
}

part doctor 60 "$versieve" doctor
cat "$out/doctor.log"
# Programs that were not linked again measure the kernels of before: say so at once.
built=$(sed -n 's/^versieve *\([0-9a-f]\{12\}\).*/\1/p' "$out/doctor.log")
tree=$(git rev-parse --short=12 HEAD 2>/dev/null || true)
if [ -n "$built" ] && [ -n "$tree" ] && [ "$built" != "$tree" ]; then
  printf 'the programs are of revision %s, the tree is %s\n' "$built" "$tree" >&2
  add_row revision differs 0 "programs $built, tree $tree"
  failed=1
fi
# The random shapes of the door's families take the longest. Line by line, so that what a program
# said before its time was over is kept.
for program in "$build"/bin/test_gpu_*; do
  limit=240
  [ "$(basename "$program")" = test_gpu_door_fuzz ] && limit=600
  part "$(basename "$program")" "$limit" stdbuf -oL "$program"
done
VERSIEVE_LOSSLESS_BACKEND=cuda VERSIEVE_LOSSLESS_DTYPE=bf16 VERSIEVE_LOSSLESS_PAIRS=2000 \
  part lossless 600 stdbuf -oL "$build"/bin/test_lossless '[sample]'
# 2,000 batches of each kind of pair, bf16.
for pair in 'NSA' 'a dense target with a draft head' \
  'a dense target with a draft model, SpecAttn too'; do
  part "batches_${pair//[ ,]/_}" 400 stdbuf -oL "$build"/bin/test_gpu_batch \
    '*alone \[long\] - Bf16' -c "$pair"
done

sanitizer=$(find_sanitizer)
if [ -n "$sanitizer" ]; then
  for program in "$build"/bin/test_gpu_{ops,samplers,attention,steps,topk,indexer,resa,specattn} \
    "$build"/bin/test_gpu_{decode,batch,door_fuzz}; do
    cases='~[bench]~[timing]~[long]~[large]~[pair]~[!hide]'
    # Whole batches decode each request twice: small ones, SpecAttn's among them.
    [ "$(basename "$program")" = test_gpu_batch ] && cases='[small],[race]'
    [ -x "$program" ] && VERSIEVE_TEST_REDUCED=1 part "memcheck_$(basename "$program")" 240 \
      "$sanitizer" --tool memcheck --error-exitcode 9 "$program" "$cases"
  done
  # The launches whose warps, blocks and copies meet at barriers of their own: small cases, a few
  # launches each, that end in seconds even under racecheck.
  # synccheck of CUDA 13.0 errs where nine and more clusters of 16 run
  # (kernels/spec_sample/README.md).
  errs=$("$sanitizer" --version 2>/dev/null | grep -c 'Version 2025')
  for tool in racecheck synccheck; do
    cases='[race]'
    [ "$tool" = synccheck ] && [ "$errs" != 0 ] && cases='[race]~[many-clusters]'
    for program in "$build"/bin/test_gpu_{ops,attention,batch,resa,samplers,specattn,steps} \
      "$build"/bin/test_gpu_{topk,indexer,decode}; do
      part "${tool}_$(basename "$program")" 120 "$sanitizer" --tool "$tool" --error-exitcode 9 \
        "$program" "$cases"
    done
  done
else
  add_row memcheck skipped 0 "compute-sanitizer was not found"
fi

if "$versieve" bench --help >/dev/null 2>&1; then
  part bench 240 "$versieve" bench all
else
  add_row bench skipped 0 "this build has no benchmarks"
fi
part "profile_$sweep" 560 "$versieve" profile --db "$out/measured.db" --sweep "$sweep" \
  --backend cuda
tail -c 600 "$out/profile_$sweep.log"

printf '\n'
printf '%s\n' "${table[@]}" | tee "$out/summary.txt"
exit $failed
