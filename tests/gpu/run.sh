#!/usr/bin/env bash
# Everything that needs a GPU, from prebuilt programs: what the machine is, the GPU test programs, a
# sweep, the lossless sample, checks of memory, races and barriers by small cases, benchmarks and
# thousands of batches. Run from the repository's root. One part after another, what is cheap and
# tells most first: programs side by side share the GPU by slices of time, and eleven had not ended
# in 147 s (H100).
#   tests/gpu/run.sh [--parts REGEX] [--resume] [--seconds S] [BUILD_FOLDER] [OUT_FOLDER] [SWEEP]
# defaults: build/release, $OUT or build/gpu, quick. Each part has its own time limit; logs go to
# OUT, the table to OUT/summary.txt after every part. In pieces, where a GPU is lent by the minute:
#   --parts REGEX  parts whose names match alone (an extended regular expression)
#   --resume       parts that the table has as passed, by these programs, are not run again; other
#                  rows of it stay until their parts are
#   --seconds S    ends the part that runs after so many, and lists it and those after as not run
# Exit code 0: every part of the table passed or had nothing to test; 1: one failed; 2: usage; 3:
# none failed, but some were not run.
set -uo pipefail

refuse() {
  printf 'tests/gpu/run.sh: %s\n' "$1" >&2
  exit 2
}

parts='' resume=no seconds=0
while [[ ${1:-} == --* ]]; do
  case $1 in
    --resume) resume=yes ;;
    --parts) parts=${2-} ;;&
    --seconds) seconds=${2-} ;;&
    --parts | --seconds)
      [ -n "${2-}" ] || refuse "$1 needs a value"
      shift
      ;;
    *) refuse "there is no option $1" ;;
  esac
  shift
done
[ $# -le 3 ] || refuse "$4 is one word too many"
[[ $seconds =~ ^[0-9]{1,6}$ ]] || refuse "--seconds takes a whole number, not $seconds"
[[ x =~ $parts ]]
[ $? -ne 2 ] || refuse "--parts $parts is no regular expression"

build=${1:-build/release}
out=${2:-${OUT:-build/gpu}}
sweep=${3:-quick}
versieve=$build/bin/versieve
mkdir -p "$out" || exit 1
table=()
declare -A before=() # rows of an earlier table whose parts were not come to yet
found=no             # a part of that name

write_table() {
  printf '%s\n' "${table[@]}" "${before[@]}" | grep . >"$out/summary.txt.new"
  mv "$out/summary.txt.new" "$out/summary.txt"
}

add_row() {
  table+=("$(printf '%-28s %-10s %6ss  %s' "$1" "$2" "$3" "$4")")
  write_table
}

# run NAME LIMIT_S COMMAND...: runs it with its limit, keeps its output, remembers how it went.
run() {
  local name=$1 limit=$2 begin=$SECONDS code verdict ended=timeout
  shift 2
  if ((seconds > 0 && seconds - SECONDS < limit)); then
    limit=$((seconds - SECONDS)) ended='not run'
  fi
  if ((limit <= 0)); then
    add_row "$name" "$ended" 0 "$seconds s were over"
    return
  fi
  printf '== %s\n' "$name"
  timeout --kill-after=10 "$limit" "$@" >"$out/$name.log" 2>&1
  code=$?
  case $code in
    0)
      verdict=passed
      # Catch2 2 ends with 0 where a filter matches nothing.
      ! grep -qa '^No tests ran' "$out/$name.log" || verdict=failed
      ;;
    124 | 137) verdict=$ended ;;
    *) verdict=failed ;;
  esac
  [ "$verdict" = passed ] || tail -n 40 "$out/$name.log"
  add_row "$name" "$verdict" $((SECONDS - begin)) "exit $code, $out/$name.log"
}

# Whether a part is to be done in this run; else its earlier row stays.
is_wanted() {
  local known=${before[$1]:-}
  unset "before[$1]"
  if [[ $1 =~ $parts ]]; then
    found=yes
    [[ $known =~ ^[^\ ]+\ +passed\  ]] || return 0
  fi
  [ -z "$known" ] || table+=("$known")
  return 1
}

part() { if is_wanted "$1"; then run "$@"; fi; }
skip() { if is_wanted "$1"; then add_row "$1" skipped 0 "$2"; fi; }

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

# The GPU test programs, seconds-long ones first; those that this list does not know come last.
gpu_programs() {
  local name path
  for name in ptx group_bytes profiler step_trace decode ops attention resa specattn indexer \
    samplers topk steps door resa_engine engine batch; do
    [ -x "$build/bin/test_gpu_$name" ] && echo "test_gpu_$name"
  done
  for path in "$build"/bin/test_gpu_*; do
    echo "${path##*/}"
  done
}

if [ "$resume" = yes ] && [ -r "$out/summary.txt" ]; then
  while IFS= read -r row; do
    before[${row%% *}]=$row
  done <"$out/summary.txt"
fi
read -r _ programs _ <<<"${before[programs]:-}"
unset 'before[doctor]' 'before[revision]'
run doctor 60 "$versieve" doctor
cat "$out/doctor.log"
# Programs that were not linked again measure the kernels of before: say so at once.
built=$(sed -n 's/^versieve *\([0-9a-f]\{12\}\).*/\1/p' "$out/doctor.log")
tree=$(git rev-parse --short=12 HEAD 2>/dev/null || true)
if [ "$resume" = yes ] && [ "$programs" != "${built:-unknown}" ]; then
  echo "nothing of revision ${built:-unknown} to resume: every part is run"
  before=()
fi
unset 'before[programs]'
add_row programs "${built:-unknown}" 0 "$build"
if [ -n "$built" ] && [ -n "$tree" ] && [ "$built" != "$tree" ]; then
  printf 'the programs are of revision %s, the tree is %s\n' "$built" "$tree" >&2
  add_row revision differs 0 "programs $built, tree $tree"
fi

# Line by line, so that what a program said before its time was over is kept.
for program in $(gpu_programs | awk '!known[$0]++ && !/_door_fuzz$/'); do
  part "$program" 240 stdbuf -oL "$build/bin/$program"
done
more=()
[ "$resume" = yes ] && more=(--resume)
part "profile_$sweep" 560 "$versieve" profile --db "$out/measured.db" --sweep "$sweep" \
  --backend cuda "${more[@]}"
part lossless 600 env VERSIEVE_LOSSLESS_BACKEND=cuda VERSIEVE_LOSSLESS_DTYPE=bf16 \
  VERSIEVE_LOSSLESS_PAIRS=2000 stdbuf -oL "$build"/bin/test_lossless '[sample]'

sanitizer=$(find_sanitizer)
if [ -n "$sanitizer" ]; then
  for program in "$build"/bin/test_gpu_{ops,samplers,attention,steps,topk,indexer,resa,specattn} \
    "$build"/bin/test_gpu_{decode,batch,door_fuzz}; do
    cases='~[bench]~[timing]~[long]~[large]~[pair]~[!hide]'
    # Whole batches decode each request twice: small ones, SpecAttn's among them.
    [ "${program##*/}" = test_gpu_batch ] && cases='[small],[race]'
    [ -x "$program" ] && part "memcheck_${program##*/}" 240 env VERSIEVE_TEST_REDUCED=1 \
      "$sanitizer" --tool memcheck --error-exitcode 9 "$program" "$cases"
  done
else
  skip memcheck "compute-sanitizer was not found"
fi
if "$versieve" bench --help >/dev/null 2>&1; then
  part bench 240 "$versieve" bench all
else
  skip bench "this build has no benchmarks"
fi
if [ -n "$sanitizer" ]; then
  # The launches whose warps, blocks and copies meet at barriers of their own: small cases, a few
  # launches each. synccheck of CUDA 13.0 errs where nine and more clusters of 16 run
  # (kernels/spec_sample/README.md).
  errs=$("$sanitizer" --version 2>/dev/null | grep -c 'Version 2025')
  for tool in racecheck synccheck; do
    cases='[race]'
    [ "$tool" = synccheck ] && [ "$errs" != 0 ] && cases='[race]~[many-clusters]'
    for program in "$build"/bin/test_gpu_{ops,attention,batch,resa,samplers,specattn,steps} \
      "$build"/bin/test_gpu_{topk,indexer,decode}; do
      part "${tool}_${program##*/}" 120 "$sanitizer" --tool "$tool" --error-exitcode 9 \
        "$program" "$cases"
    done
  done
fi
# 2,000 batches of each kind of pair, bf16.
batches() {
  part "batches_$1" 400 stdbuf -oL "$build"/bin/test_gpu_batch '*alone \[long\] - Bf16' -c "$2"
}
batches nsa 'NSA'
batches dense_head 'a dense target with a draft head'
batches dense_model 'a dense target with a draft model, SpecAttn too'
# The random shapes of the door's families take the longest.
part test_gpu_door_fuzz 600 stdbuf -oL "$build"/bin/test_gpu_door_fuzz

before=() # of parts that there are no more
write_table
printf '\n'
cat "$out/summary.txt"
[ "$found" = yes ] || refuse "no part is named like --parts $parts"
code=0
for row in "${table[@]}"; do
  read -r _ verdict _ <<<"$row"
  case $verdict in
    failed | timeout | differs) exit 1 ;;
    not) code=3 ;;
  esac
done
exit $code
