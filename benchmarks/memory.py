"""The pool manager: the cached path beside ``cuda.core``, where its time goes, and cost over the number of live blocks.

``python -m benchmarks.memory [--json FILE] [--quick]``. ``cuda.core`` runs over the emulated driver where there is no real one, whose
share of its time is next to nothing: on a real device the comparison can only get better for graphcap.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.timing import Timing, race
from graphcap.memory import CachingAllocator, new_graph_pool_id

MIB = 1 << 20
SIZE = 1000
LIVE = (10, 100, 1_000, 10_000, 100_000)
FLAT = 2.0
PEER = 2.0


class CountingSource:
    """Addresses without memory: the manager never looks at it."""

    def __init__(self) -> None:
        self._next = 1 << 40

    label = "bench:0"
    alignment = 512

    def allocate_segment(self, nbytes: int, stream: int) -> int:
        address, self._next = self._next, self._next + nbytes
        return address

    def free_segment(self, address: int, nbytes: int) -> None:
        pass

    def record_event(self, stream: int) -> object:
        return self

    def query_event(self, event: object) -> bool:
        return True

    def synchronize_event(self, event: object) -> None:
        pass

    def release_event(self, event: object) -> None:
        pass

    def memory_info(self) -> tuple[int, int] | None:
        return None


def _capturing() -> CachingAllocator:
    a = CachingAllocator(CountingSource())
    a.begin_allocate_to_pool(new_graph_pool_id(), lambda stream: stream == 7)
    a.capture_began()
    return a


def _pair(a: CachingAllocator, stream: int, nbytes: int = SIZE) -> Callable[[], None]:
    allocate, free = a.allocate, a.free

    def pair() -> None:
        free(allocate(nbytes, stream))

    return pair


def _cuda_core() -> tuple[str, Callable[[], None]] | None:
    """Allocate and close through cuda.core's stream-ordered resource, or None if it cannot be had."""
    try:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from tests.emulated_device import loader

        loader.load()
    except Exception as error:  # no compiler, or not in a checkout: a real driver may still be there
        print(f"emulated driver: not available ({error})")
    try:
        from cuda.core import Device, DeviceMemoryResource

        device = Device(0)
        device.set_current()
        stream = device.create_stream()
        resource = DeviceMemoryResource(device)
        resource.allocate(SIZE, stream=stream).close()
    except Exception as error:
        print(f"cuda.core: not available ({error})")
        return None
    allocate = resource.allocate
    made = 0

    def pair() -> None:
        nonlocal made
        allocate(SIZE, stream=stream).close()
        made += 1
        if not made % 4096:
            stream.sync()  # frees wait for their turn on the emulated driver, and each holds two mappings of the process

    return "cuda.core DeviceMemoryResource.allocate + close", pair


def _graphcap_buffer() -> Callable[[], None] | None:
    """The public call on the CUDA backend, with its Buffer."""
    try:
        import graphcap

        graphcap.allocate(SIZE, device="cuda")
    except Exception as error:
        print(f"graphcap.allocate on CUDA: not available ({type(error).__name__}: {error})")
        return None
    allocate = graphcap.allocate

    def pair() -> None:
        allocate(SIZE, device="cuda")  # the buffer dies at once, which frees its block

    return pair


def cached_path(rounds: int) -> dict[str, Timing]:
    peers: dict[str, Callable[[], object]] = {
        "graphcap allocate + free": _pair(CachingAllocator(CountingSource()), 0),
        "graphcap allocate + free, in a capture": _pair(_capturing(), 7),
    }
    traced = CachingAllocator(CountingSource())
    traced.record_history(depth=4, max_entries=1000)
    peers["graphcap allocate + free, history of 4 frames"] = _pair(traced, 0)
    peer = _cuda_core()  # first: it loads the emulated driver
    if peer is not None:
        peers[peer[0]] = peer[1]
        public = _graphcap_buffer()
        if public is not None:
            peers["graphcap.allocate() and its Buffer's end, on CUDA"] = public
    return race(peers, rounds=rounds)


def shares(rounds: int) -> dict[str, float]:
    """Microseconds of each part of one cached allocate + free: its statements, timed alone on the real objects."""
    a = _capturing()
    route = a._routes.find(7)
    assert route is not None
    pool = route.pool
    block = a.allocate(SIZE, 7)
    a.free(block)
    lock, queue, waiting, routes, live = a._lock, a._queue, a._waiting, a._routes, a._live
    home, entry = block.home, block.entry
    assert home is not None
    assert entry is not None
    tallies = (a._tally, pool.tally)

    def nothing() -> None:
        pass

    def locking() -> None:
        for _ in (0, 1):
            lock.acquire(False)
            if a._busy:
                return
            a._busy = True
            try:
                pass
            finally:
                a._busy = False
                lock.release()

    def checks() -> None:
        if queue:
            return
        nbytes = SIZE
        if type(nbytes) is not int or nbytes <= 0:
            return
        count = waiting.count
        if (count and not a._open_captures) or a._instrumented or count:
            return

    def routing() -> None:
        if a._open_routes:
            routes.find(7)

    def lookup() -> None:
        rounded = ((SIZE + 511) & -512 or 512) if a._plain_rounding else 0
        pool.parked.get((7, rounded))

    def heap() -> None:
        heappush(home, entry)
        heappop(home)

    def states() -> None:
        found = entry[1]
        if found.home is None or found.state is live:
            return
        found.requested = SIZE

    def counting_in() -> None:
        size = nbytes = 1024
        for t in tallies:
            t.allocated_in = total = t.allocated_in + size
            current = total - t.allocated_out
            if current > t.allocated_peak:
                t.allocated_peak = current
            t.requested_in = total = t.requested_in + nbytes
            current = total - t.requested_out
            if current > t.requested_peak:
                t.requested_peak = current
            t.blocks_in = total = t.blocks_in + 1
            current = total - t.blocks_out
            if current > t.blocks_peak:
                t.blocks_peak = current

    def counting_out() -> None:
        size = requested = 1024
        for t in tallies:
            t.allocated_out += size
            t.requested_out += requested
            t.blocks_out += 1

    parts: dict[str, Callable[[], object]] = {
        "two calls": nothing,
        "lock and busy flag": locking,
        "argument and state checks": checks,
        "routing (one capture open)": routing,
        "rounding and lookup": lookup,
        "heap": heap,
        "block state": states,
        "statistics, allocate": counting_in,
        "statistics, free": counting_out,
        "whole": _pair(_capturing(), 7),
    }
    heappush(home, entry)
    timed = {name: timing.median * 1e6 for name, timing in race(parts, rounds=rounds).items()}
    call = timed["two calls"]
    out = {name: max(0.0, value - call) for name, value in timed.items() if name not in ("two calls", "whole")}
    out["two calls"] = 2 * call
    out["rest"] = timed["whole"] - sum(out.values())
    out["whole"] = timed["whole"]
    return out


def flatness(rounds: int) -> dict[str, dict[int, float]]:
    """Microseconds per operation with so many blocks live: the cached pair, random churn, and a size never seen, the
    last also with every other block freed, so that the sorted list is as long as it can get."""
    rows: dict[str, dict[int, float]] = {
        "cached pair": {},
        "churn (free one, allocate one)": {},
        "new size": {},
        "new size, fragmented": {},
    }
    allocators = {}
    for live in LIVE:
        rng = random.Random(live)
        a = CachingAllocator(CountingSource())
        blocks = [a.allocate(512 * rng.randrange(1, 40), 0) for _ in range(live)]
        pair = _pair(a, 0)
        pair()
        fragmented = CachingAllocator(CountingSource())
        for block in [fragmented.allocate(512 * rng.randrange(1, 40), 0) for _ in range(2 * live)][::2]:
            fragmented.free(block)
        allocators[live] = (a, blocks, rng, pair, fragmented)
    samples: dict[str, dict[int, list[float]]] = {name: {live: [] for live in LIVE} for name in rows}
    gc.collect()
    gc.freeze()  # else the collector walks the 100,000 blocks of this benchmark in whatever runs
    for round_ in range(rounds):
        for live, (a, blocks, rng, pair, fragmented) in allocators.items():
            samples["cached pair"][live].append(_time(pair, 2000))
            picks = [(rng.randrange(live), 512 * rng.randrange(1, 40)) for _ in range(2000)]
            allocate, free = a.allocate, a.free
            began = time.thread_time()
            for pick, nbytes in picks:
                free(blocks[pick])
                blocks[pick] = allocate(nbytes, 0)
            samples["churn (free one, allocate one)"][live].append((time.thread_time() - began) / len(picks))
            sizes = [512 * (50 + (round_ * 300 + i) % 1900) for i in range(300)]
            for name, which in (("new size", a), ("new size, fragmented", fragmented)):
                allocate, free = which.allocate, which.free
                which.empty_cache()  # merges what is parked
                began = time.thread_time()
                for nbytes in sizes:
                    free(allocate(nbytes, 0))
                samples[name][live].append((time.thread_time() - began) / len(sizes))
    gc.unfreeze()
    for name, by_live in samples.items():
        rows[name] = {live: median(values) * 1e6 for live, values in by_live.items()}
    return rows


def _time(call: Callable[[], None], count: int) -> float:
    began = time.thread_time()  # not the time that other processes take
    for _ in range(count):
        call()
    return (time.thread_time() - began) / count


def main() -> int:
    """Measure and print; the exit code is 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    options = parser.parse_args()
    rounds = 5 if options.quick else 25
    result: dict[str, Any] = {}

    timings = cached_path(rounds)
    print(f"\nAllocate and free {SIZE} bytes, a size seen before; microseconds, median (quartiles)")
    for name, timing in timings.items():
        print(f"  {name:52} {timing.text}")
    result["cached_path_us"] = {name: timing.median * 1e6 for name, timing in timings.items()}
    missed = []
    peer = next((t for name, t in timings.items() if name.startswith("cuda.core")), None)
    if peer is not None:
        for name in ("graphcap allocate + free", "graphcap allocate + free, in a capture"):
            ratio = timings[name].median / peer.median
            result.setdefault("ratio_to_cuda_core", {})[name] = ratio
            print(f"  {name}: {ratio:.2f} times cuda.core (target: at most {PEER})")
            if ratio > PEER:
                missed.append(f"{name}: {ratio:.2f} times cuda.core")

    parts = shares(rounds)
    print("\nWhere the time of one cached allocate + free in a capture goes")
    for name, value in sorted(parts.items(), key=lambda item: -item[1]):
        print(f"  {name:32} {value:6.3f} us  {value / parts['whole']:5.0%}")
    result["shares_us"] = parts

    rows = flatness(rounds)
    print("\nMicroseconds per allocate + free over live blocks")
    print("  " + " " * 32 + "".join(f"{live:>10,}" for live in LIVE) + "   most/least")
    for name, by_live in rows.items():
        spread = max(by_live.values()) / min(by_live.values())
        print(f"  {name:32}" + "".join(f"{value:10.2f}" for value in by_live.values()) + f"   {spread:.2f}")
        if spread > FLAT:
            missed.append(f"{name}: {spread:.2f} times from {LIVE[0]} to {LIVE[-1]:,} live blocks")
    result["flatness_us"] = {name: {str(k): v for k, v in by_live.items()} for name, by_live in rows.items()}

    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for line in missed:
        print(f"TARGET MISSED: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
