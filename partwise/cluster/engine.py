"""Shards on the workers of a ``dask.distributed`` cluster.

Every worker holds a run of shards, and evaluates nodes of the tree of sums (see :mod:`partwise.cluster.shards`).
Nothing that a result depends on lives only on a worker: θ and the state of the learner are here, shards can be opened
again anywhere. So whatever is lost with a worker is computed again by another, and comes out the same.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from partwise.cluster import worker
from partwise.cluster.shards import Leaf, Shard, dense, group_borders, halves, shard_total, unless_gone
from partwise.cluster.worker import Sent
from partwise.exceptions import ClusterError, ParameterError

__all__ = ["ClusterRunner", "check_versions", "connect", "local_client", "lost_errors", "threads_of"]

#: Seconds to wait for a scheduler to answer, and for a worker to come back where none is left.
TIMEOUT = 10.0
PATIENCE = 120.0
#: Seconds after which a client that waits for workers asks whether they are still there.
GLANCE = 1.0
#: How often a piece of work may be lost with its worker before it is blamed for that.
ATTEMPTS = 6
#: What a client raises that cannot ask its scheduler: the connection is lost, or closed on this side.
UNREACHABLE = (OSError, RuntimeError)
#: Bytes from which on a value is sent by itself and not as part of a task.
LARGE = 1 << 16

Floats = NDArray[np.float64]
Node = tuple[int, int, str]  # the shards first:last, and the address of the worker that adds them up


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise ClusterError("an engine needs dask.distributed: pip install 'partwise[dask]'") from None
    return distributed


@contextlib.contextmanager
def local_client(workers: int, threads: int = 1) -> Iterator[Any]:
    """A scheduler and single-threaded worker processes on this machine, which end with the context."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise ParameterError("workers", "partwise", "a positive number of processes", workers)
    distributed = _distributed()
    import dask

    # dask looks every few milliseconds at what a worker does, for a page that nobody opens here
    with dask.config.set({"distributed.worker.profile.enabled": False}):
        cluster = distributed.LocalCluster(
            n_workers=workers, threads_per_worker=threads, processes=True, dashboard_address=None, protocol="tcp://"
        )
    try:
        with distributed.Client(cluster, direct_to_workers=True) as client:
            yield client
    finally:
        cluster.close()


@contextlib.contextmanager
def connect(engine: Any) -> Iterator[Any]:
    """The client of an engine: the engine itself, a client for an address, or one for new local processes ("local")."""
    distributed = _distributed()
    if isinstance(engine, distributed.Client):
        yield engine
        return
    if engine == "local":
        from partwise.estimation.base import thread_count

        with local_client(thread_count(-1)) as client:
            yield client
        return
    if not isinstance(engine, str) or "://" not in engine:
        raise ParameterError("engine", "fit", "a dask Client, an address such as tcp://host:8786, or 'local'", engine)
    try:
        client = distributed.Client(engine, timeout=TIMEOUT)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"no scheduler responded at {engine} within {TIMEOUT:g} s ({type(error).__name__})"
        ) from None
    with client:
        yield client


def threads_of(client: Any) -> dict[str, int]:
    """Threads of each worker, by address; waits for one where there is none."""
    give_up = time.monotonic() + PATIENCE
    while not (known := client.nthreads()):
        if time.monotonic() > give_up:
            raise ClusterError(f"no worker connected to the scheduler within {PATIENCE:g} s")
        time.sleep(0.1)
    return {address: int(known[address]) for address in sorted(known)}


def check_versions(client: Any) -> None:
    """Refuse workers that have something else installed."""
    threads_of(client)
    mine = worker.versions()
    try:
        theirs = client.run(worker.versions)
    except Exception as error:  # whatever a worker without partwise raises
        raise ClusterError(f"a worker cannot import partwise {mine['partwise']}: {error}") from None
    for address, found in theirs.items():
        wrong = [f"{name} {found.get(name)} (here {mine[name]})" for name in mine if found.get(name) != mine[name]]
        if wrong:
            raise ClusterError(
                f"worker {address} has {', '.join(wrong)}; install the same versions there: only they give the "
                "same model"
            )


class ClusterRunner:
    """Works on shards that workers hold; see :class:`~partwise.cluster.shards.ShardRunner`."""

    def __init__(self, engine: Any, shards: Sequence[Shard]) -> None:
        self.shards = list(shards)
        self.run = uuid.uuid4().hex
        self._held: dict[str, set[int]] = {}  # by worker; what it may have lost since
        self._settled: dict[int, str] = {}  # the worker of a shard that is to stay where its memory is
        self._stack = contextlib.ExitStack()
        self._fetcher = ThreadPoolExecutor(4, "partwise-fetch")
        self._stack.callback(self._fetcher.shutdown, wait=False)
        try:
            self.client = self._stack.enter_context(connect(engine))
            self._lost = lost_errors()
            check_versions(self.client)
            self._restarts = len(self._memory_events())
        except BaseException:
            self._stack.close()
            raise

    # what a learner asks

    def total(self, common: Any, leaf: Leaf = shard_total) -> tuple[Any, Floats]:
        numbers, vector = self._repeat(lambda nodes: self._submit_total(nodes, common, leaf))
        return numbers, dense(vector)

    def each(self, task: Callable[..., Any], common: Any, own: Sequence[Any] | None = None) -> list[Any]:
        found = self._repeat(lambda nodes: self._submit_each(nodes, task, common, own))
        return [result for part in found for result in part]

    @property
    def n_groups(self) -> int:
        return len(threads_of(self.client))

    def borders(self, groups: int) -> list[int]:
        return group_borders(len(self.shards), groups)

    def sweep(
        self, task: Callable[..., Any], finish: Callable[..., Any], borders: Sequence[int], common: Any
    ) -> list[Any]:
        def attempt(nodes: list[Node]) -> Any:
            known = self._send(nodes, common)
            return self._gathered(
                [self._submit(home, worker.run_group, self.run, a, b, task, finish, known) for a, b, home in nodes],
                nodes,
            )

        spans = list(pairwise(borders))
        answer: list[Any] = self._repeat(attempt, lambda workers: _homes(spans, workers))
        return answer

    def exchange(
        self, send: Callable[..., Any], receive: Callable[..., Any], senders: range, receivers: range, common: Any
    ) -> list[Any]:
        def attempt(nodes: list[Node]) -> Any:
            known, home = self._send(nodes, common), {number: address for number, _, address in nodes}
            posted = [(k, self._submit(home[k], worker.post, self.run, k, send, known)) for k in senders]
            delivered = []
            for place, k in enumerate(receivers):
                messages = [self._submit(home[sender], worker.message, box, place) for sender, box in posted]
                delivered.append(self._submit(home[k], worker.deliver, self.run, k, receive, known, *messages))
            del posted, messages  # nothing here keeps on a worker what has arrived
            return self._gathered(delivered, nodes)

        return unless_gone(self._repeat(attempt, lambda workers: self._settle((senders, receivers), workers)))

    def at(self, task: Callable[..., Any], numbers: range, common: Any, own: Sequence[Any] | None = None) -> list[Any]:
        def attempt(nodes: list[Node]) -> Any:
            known, home = self._send(nodes, common), {number: address for number, _, address in nodes}
            return self._gathered(
                [
                    self._submit(
                        home[k],
                        worker.run_each,
                        self.run,
                        (k,),
                        task,
                        known,
                        None if own is None else Sent([own[place]]),
                    )
                    for place, k in enumerate(numbers)
                ],
                nodes,
            )

        found = self._repeat(attempt, lambda workers: self._settle((numbers,), workers))
        return unless_gone([result for (result,) in found])

    def replace(self, shards: Sequence[Shard]) -> None:
        self._forget()
        self.shards, self.run, self._held, self._settled = list(shards), uuid.uuid4().hex, {}, {}

    def close(self) -> None:
        self._forget()
        self._stack.close()

    def _forget(self) -> None:
        if self.client.status == "running":  # else nobody can be asked
            with contextlib.suppress(*UNREACHABLE):
                self.client.run(worker.forget, self.run, on_error="ignore")  # who is gone has forgotten already

    # who does what

    def _nodes(self, workers: list[str]) -> list[Node]:
        """Nodes of the tree, each with the worker that evaluates it: at least as many as there are workers."""
        spans = [(0, len(self.shards))]
        # a power of two of workers divides the tree evenly; for others, smaller pieces even it out
        wanted = len(workers) if len(workers) & (len(workers) - 1) == 0 else 4 * len(workers)
        while len(spans) < min(wanted, len(self.shards)):
            cut = [(a, b) for first, last in spans for a, b in _parts(first, last)]
            if len(cut) == len(spans):
                break
            spans = cut
        return _homes(spans, workers)

    def _settle(self, ranges: Sequence[range], workers: list[str]) -> list[Node]:
        """A worker for every shard of each range, and the same one as before, whoever has come meanwhile."""
        for numbers in ranges:
            for place, number in enumerate(numbers):
                if self._settled.get(number) not in workers:
                    self._settled[number] = workers[place * len(workers) // len(numbers)]
        return [(number, number + 1, self._settled[number]) for numbers in ranges for number in numbers]

    # shards to workers

    def _place(self, nodes: Sequence[Node], threads: dict[str, int]) -> None:
        """Let every worker open the shards of its nodes."""
        opening = []
        for first, last, address in nodes:
            wanted = [k for k in range(first, last) if k not in self._held.get(address, ())]
            if not wanted:
                continue
            sent = self._put(
                address, Sent({k: self.shards[k] for k in wanted})
            )  # dask cannot tell how large shards are
            opening.append(self._submit(address, worker.adopt, self.run, sent, threads[address]))
            self._held.setdefault(address, set()).update(wanted)
        self._results(opening, nodes)

    # work

    def _submit(self, address: str, function: Callable[..., Any], *args: Any) -> Any:
        """A call on that worker and no other; dask would also move work to one that does not hold the shard."""
        known = [self._put(address, item) if isinstance(item, Sent) and _is_large(item) else item for item in args]
        return self.client.submit(function, *known, workers=[address], pure=False)

    def _put(self, address: str, sent: Sent) -> Any:
        """A large value on a worker: it does not go through the scheduler where workers can be reached without it."""
        try:
            return self.client.scatter(sent, workers=[address], hash=False, timeout=TIMEOUT)
        except (KeyError, ValueError, OSError):  # what dask says of a worker that it does not know, or cannot reach
            raise ConnectionError(f"worker {address} is gone") from None

    def _send(self, nodes: Sequence[Node], value: Any) -> Any:
        """A value for all workers: a task that returns it, which dask passes on and, if need be, runs again."""
        return self._submit(nodes[0][2], worker.unwrap, Sent(value))

    def _submit_total(self, nodes: Sequence[Node], common: Any, leaf: Leaf) -> Any:
        known = self._send(nodes, common)
        leaves = {
            (a, b): self._submit(address, worker.node_total, self.run, a, b, known, leaf) for a, b, address in nodes
        }
        homes = {(a, b): address for a, b, address in nodes}

        def node(first: int, last: int) -> Any:
            if (first, last) in leaves:
                return leaves[first, last]
            _, middle, _ = halves(first, last)
            left, right = node(first, middle), node(middle, last)
            homes[first, last] = homes[first, middle] if (first, middle) in homes else nodes[0][2]
            return self._submit(homes[first, last], worker.combine, left, right)

        return self._results([node(0, len(self.shards))], nodes)[0]

    def _submit_each(
        self, nodes: Sequence[Node], task: Callable[..., Any], common: Any, own: Sequence[Any] | None
    ) -> Any:
        known = self._send(nodes, common)
        futures = [
            self._submit(
                address, worker.run_each, self.run, range(a, b), task, known, None if own is None else Sent(own[a:b])
            )
            for a, b, address in nodes
        ]
        return self._gathered(futures, nodes)

    def _results(self, futures: list[Any], nodes: Sequence[Node]) -> list[Any]:
        """What tasks return; ConnectionError where it cannot come, because a worker is gone.

        A worker may go while it computes, but also afterwards, with a result that nobody has fetched: dask computes it
        again then, on that worker and no other. So it is another thread that waits, and this one looks after workers.
        """
        homes, gone = {address for _, _, address in nodes}, False
        fetched = self._fetcher.submit(self.client.gather, futures)
        while True:
            try:
                found: list[Any] = fetched.result(timeout=GLANCE)
                return found
            except TimeoutError:
                if fetched.done():  # the error of a task, or of dask
                    raise
                if gone:
                    self.client.cancel(futures, force=True)  # ends the other thread's wait
                    raise ConnectionError("a worker is gone") from None
                gone = not homes <= self.client.nthreads().keys()  # then what it means for them is on its way
            except KeyboardInterrupt:
                self.client.cancel(futures, force=True)
                raise

    def _gathered(self, futures: list[Any], nodes: Sequence[Node]) -> Any:
        """The results, or what is missing in any of them."""
        results = self._results(futures, nodes)
        missing = [number for result in results if isinstance(result, worker.Missing) for number in result]
        return worker.Missing(missing) if missing else results

    def _repeat(
        self, attempt: Callable[[list[Node]], Any], share: Callable[[list[str]], list[Node]] | None = None
    ) -> Any:
        """The result of a pure function of shards and θ, tried again where workers were lost on the way."""
        last: BaseException | None = None
        for _ in range(ATTEMPTS):
            try:
                threads = threads_of(self.client)
                nodes = (share or self._nodes)(list(threads))
                self._place(nodes, threads)
                found = attempt(nodes)
                if not isinstance(found, worker.Missing):
                    return found
                self._held.clear()  # somebody has lost what it held: ask all of them again, which costs little
            except self._lost as error:
                last = error
                self._held.clear()
                if self.client.status != "running":
                    raise _gone() from None
                if type(error).__name__ == "KilledWorker" and len(self._memory_events()) > self._restarts:
                    raise self._out_of_memory() from None
            except OSError:
                if self.client.status != "running":  # else it is of a file, on a worker
                    raise _gone() from None
                raise
        if len(self._memory_events()) > self._restarts:
            raise self._out_of_memory()
        raise ClusterError(
            f"the workers were lost {ATTEMPTS} times in a row ({last}). If they ran out of memory: a shard has "
            f"{self.shards[0].size}; {self.shards[0].smaller}, or give each worker more memory or fewer threads"
        )

    def _memory_events(self) -> Sequence[Any]:
        """Of workers that were ended because they held too much."""
        try:
            answer: Sequence[Any] = self.client.get_events("worker-restart-memory")
            return answer
        except UNREACHABLE:  # what follows tells
            return ()

    def _out_of_memory(self) -> ClusterError:
        _, event = self._memory_events()[-1]
        shard = self.shards[0]
        return ClusterError(
            f"workers ran out of memory on one piece of work: the last one held {event['rss'] / 1e6:.0f} MB when dask "
            f"ended it. A shard has {shard.size}; {shard.smaller}, or give each worker more memory or fewer threads"
        )


def _homes(spans: Sequence[tuple[int, int]], workers: list[str]) -> list[Node]:
    """Runs of spans for each worker."""
    return [(a, b, workers[k * len(workers) // len(spans)]) for k, (a, b) in enumerate(spans)]


def _parts(first: int, last: int) -> list[tuple[int, int]]:
    if last - first == 1:
        return [(first, last)]
    _, middle, _ = halves(first, last)
    return [(first, middle), (middle, last)]


def _is_large(sent: Sent) -> bool:
    from dask.sizeof import sizeof

    return int(sizeof(sent.value)) > LARGE


def _gone() -> ClusterError:
    return ClusterError("the scheduler is gone; run the same command again to resume from its checkpoint")


def lost_errors() -> tuple[type[BaseException], ...]:
    """What is raised here where a worker, or something that it held, is lost."""
    from distributed import KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    return KilledWorker, FutureCancelledError, CommClosedError, TimeoutError, ConnectionError, CancelledError
