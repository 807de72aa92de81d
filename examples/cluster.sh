#!/usr/bin/env bash
# A dask cluster on this machine:
#   examples/cluster.sh start 4     a scheduler and four workers of one thread; prints the address when all are there
#   examples/cluster.sh stop        ends them
# The port is 8786, or $PARTWISE_PORT.
set -euo pipefail
state="${TMPDIR:-/tmp}/partwise-cluster-$(id -u)"
port="${PARTWISE_PORT:-8786}"
address="tcp://127.0.0.1:$port"
case "${1:-}" in
start)
    workers="${2:-2}"
    if [ -e "$state/pids" ]; then
        echo "a cluster is running already: $0 stop" >&2
        exit 1
    fi
    mkdir -p "$state"
    dask scheduler --host 127.0.0.1 --port "$port" --no-dashboard >"$state/scheduler.log" 2>&1 &
    echo $! >"$state/pids"
    dask worker "$address" --nworkers "$workers" --nthreads 1 --no-dashboard --local-directory "$state" \
        >"$state/workers.log" 2>&1 &
    echo $! >>"$state/pids"
    if ! python - "$address" "$workers" <<'END'; then
import sys
from distributed import Client

with Client(sys.argv[1], timeout=60) as client:
    client.wait_for_workers(int(sys.argv[2]), timeout=60)
END
        echo "the cluster did not start; see $state/*.log" >&2
        exit 1
    fi
    echo "$address"
    ;;
stop)
    if [ ! -e "$state/pids" ]; then
        echo "no cluster was started: there is no $state/pids" >&2
        exit 1
    fi
    while read -r pid; do
        kill "$pid" 2>/dev/null || true
    done < <(tac "$state/pids")
    while read -r pid; do
        for _ in $(seq 100); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
    done <"$state/pids"
    rm -r "$state"
    ;;
*)
    sed -n '2,5p' "$0"
    exit 2
    ;;
esac
