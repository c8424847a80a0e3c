#!/usr/bin/env bash
# The shipped submit file under a real Slurm: one node, started here and stopped here. 20 s, most of
# them Slurm's own waiting.
#
#   slurm_campaign.sh VERSIEVE_PROGRAM
#
# Starts munged, slurmctld and slurmd on loopback with ports, key, sockets and state of their own in a
# scratch folder, submits the job array twice (the second time nothing is left to measure), requeues a
# task that is running, and checks what the databases hold. Ends with 77 and one sentence where that
# cannot be done: Debian's packages slurm-wlm and munge, and root, are needed.
set -euo pipefail

program=$(realpath "${1:?path of the versieve program}")
here=$(cd "$(dirname "$0")" && pwd)
submit_file=$(realpath "$here/../../engine/measure/sweep/slurm/campaign.sbatch")
tasks=3
points=18

skip() {
  echo "skipped: $*"
  exit 77
}
fail() {
  echo "FAILED: $*"
  tail -n 20 "$work"/*.log 2>/dev/null || true
  exit 1
}

PATH=$PATH:/usr/sbin
for needed in munged slurmctld slurmd sbatch squeue scontrol sinfo python3; do
  command -v "$needed" >/dev/null ||
    skip "$needed is not here; Debian's packages slurm-wlm, munge and python3 have it"
done
[ "$(id -u)" -eq 0 ] || skip "slurmd and munged start as root here, and this user is not"

work=$(mktemp -d /tmp/versieve-slurm.XXXXXX)
chmod 755 "$work"
mkdir -p "$work"/{state,spool,out,munge}
started=()

# Exactly what was started here, the last first; then the folder.
clean_up() {
  local i pid
  for ((i = ${#started[@]} - 1; i >= 0; --i)); do
    pid=${started[i]}
    kill "$pid" 2>/dev/null || continue
    for _ in $(seq 50); do
      kill -0 "$pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -9 "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap clean_up EXIT

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

start() { # start NAME COMMAND...: in the foreground of its own, its output in NAME.log
  local name=$1
  shift
  "$@" >"$work/$name.log" 2>&1 &
  started+=($!)
}
wait_for() { # wait_for SECONDS COMMAND...
  local tries=$(($1 * 5))
  shift
  for _ in $(seq "$tries"); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.2
  done
  return 1
}

node=$(hostname -s)
dd if=/dev/urandom of="$work/munge/key" bs=128 count=1 status=none
chmod 700 "$work/munge" && chmod 600 "$work/munge/key"
cat >"$work/slurm.conf" <<CONF
ClusterName=versieve-test
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SchedulerParameters=sched_interval=1,batch_sched_delay=0,requeue_delay=0
MinJobAge=300
NodeName=$node NodeAddr=127.0.0.1 CPUs=2 RealMemory=512 State=UNKNOWN
PartitionName=all Nodes=$node Default=YES MaxTime=10 State=UP OverSubscribe=YES:4
CONF
export SLURM_CONF=$work/slurm.conf

start munged munged --foreground --key-file="$work/munge/key" --socket="$work/munge/socket" \
  --pid-file="$work/munge/pid" --log-file="$work/munged.log.txt" \
  --seed-file="$work/munge/seed" --num-threads=1 --force
wait_for 5 test -S "$work/munge/socket" || skip "munged does not start: $(tail -n 1 "$work/munged.log")"
start slurmctld slurmctld -D -i -f "$SLURM_CONF"
wait_for 10 scontrol ping || skip "slurmctld does not start: $(tail -n 1 "$work/slurmctld.log")"
start slurmd slurmd -D -f "$SLURM_CONF"
node_is_up() { sinfo -h -o '%T' | grep -qE '^(idle|mixed|allocated)$'; }
wait_for 10 node_is_up || skip "slurmd does not start: $(tail -n 1 "$work/slurmd.log")"

cat >"$work/tiny.json" <<'SWEEP'
{"name": "tiny", "trace_repetitions": 0, "counter_repetitions": 0,
 "timing": {"warm_up_s": 0, "min_samples": 3, "max_samples": 3, "time_limit_s": 1},
 "grids": [{"context_len": [256, 512, 1024], "draft": ["ar", "d2k2n4", "d3k2n6"], "form": "vanilla",
            "layer": ["refresh", "reuse"]}]}
SWEEP
submit() { # submit ARGUMENTS...: prints the job's number
  VERSIEVE="$program" VERSIEVE_SWEEP="$work/tiny.json" VERSIEVE_OUT="$work/out" \
    VERSIEVE_BACKEND=cpu sbatch --parsable -D "$work" "$@" "$submit_file"
}
is_done() { [ -z "$(squeue -h -j "$1")" ] || ! squeue -h -j "$1" -t PENDING,RUNNING,COMPLETING,REQUEUED | grep -q .; }
states() { scontrol -o show job "$1" | grep -o 'JobState=[A-Z]*' | sort | uniq -c | tr -s ' \n' ' '; }
points_of() {
  python3 - "$1" <<'PY'
import sqlite3, sys
store = sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True)
print(*store.execute("select count(*), count(distinct run_id) from point where status = 'ok'").fetchone())
PY
}

begin=$(date +%s%N)
job=$(submit --array=1-$tasks) || fail "sbatch refused the submit file"
wait_for 60 is_done "$job" || fail "the array did not end: $(states "$job")"
echo "first array: $(states "$job")in $((($(date +%s%N) - begin) / 1000000)) ms"
[ -f "$work/out/campaign.db" ] || fail "no merged database"
read -r merged runs <<<"$(points_of "$work/out/campaign.db")"
[ "$merged" -eq "$points" ] || fail "$merged points merged, $points expected"
[ "$runs" -eq "$tasks" ] || fail "$runs runs merged, $tasks expected"

# Submitted again: every point is there, none is measured or merged twice.
job=$(submit --array=1-$tasks)
wait_for 60 is_done "$job" || fail "the second array did not end: $(states "$job")"
[ "$(points_of "$work/out/campaign.db")" = "$merged $runs" ] ||
  fail "a second array changed the points: $(points_of "$work/out/campaign.db")"
echo "second array: $(states "$job")nothing measured twice"

# Requeued while it runs: Slurm kills the task and starts it again, and it resumes. The sweep is one
# that takes seconds.
rm -rf "$work/out" && mkdir "$work/out"
sed -i 's/"time_limit_s": 1/"time_limit_s": 1, "fixed_samples": 40/; s/"max_samples": 3/"max_samples": 40/' "$work/tiny.json"
job=$(submit --array=1-1)
some_points() { [ "$(points_of "$work/out/shard-1.db" 2>/dev/null | cut -d' ' -f1)" -ge 2 ]; }
wait_for 60 some_points || fail "the task measured nothing: $(states "$job")"
scontrol requeue "${job}_1" || fail "the task was over before it could be requeued"
before=$(points_of "$work/out/shard-1.db" | cut -d' ' -f1)
[ "$before" -lt "$points" ] || fail "the task was over before it was requeued"
wait_for 120 is_done "$job" || fail "the requeued task did not end: $(states "$job")"
restarts=$(scontrol -o show job "$job" | grep -o 'Restarts=[0-9]*' | head -n 1)
[ "$restarts" = Restarts=1 ] || fail "Slurm did not start the task again: $restarts"
read -r merged _ <<<"$(points_of "$work/out/campaign.db")"
[ "$merged" -eq "$points" ] || fail "$merged points after the requeue, $points expected"
echo "requeued after $before of $points points: $restarts, $merged points merged"
