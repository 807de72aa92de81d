#!/usr/bin/env bash
# A dask cluster on this machine:
#   examples/cluster.sh start 4     a scheduler on port 8786 and four workers of one thread; prints the address
#   examples/cluster.sh stop        ends them
set -euo pipefail
state="${TMPDIR:-/tmp}/partwise-cluster-$(id -u)"
case "${1:-}" in
start)
    mkdir -p "$state"
    dask scheduler --host 127.0.0.1 --port 8786 --no-dashboard >"$state/scheduler.log" 2>&1 &
    echo $! >"$state/pids"
    dask worker tcp://127.0.0.1:8786 --nworkers "${2:-2}" --nthreads 1 --no-dashboard --local-directory "$state" \
        >"$state/workers.log" 2>&1 &
    echo $! >>"$state/pids"
    echo "tcp://127.0.0.1:8786"
    ;;
stop)
    xargs kill <"$state/pids" || true
    rm -r "$state"
    ;;
*)
    sed -n '2,4p' "$0"
    exit 2
    ;;
esac
