"""Asks every row in a process of its own, several at a time, within a time limit.

The asking process takes no context and starts no thread, so that a fork of it can do both: a crash or a hang costs one row.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.driver_rules.probes.rows import Answer, Row

ROW_LIMIT = 20.0  # seconds for one row


def driver_facts(_: Any = None) -> Answer:
    """Which driver answers; asked in a child like any row."""
    from cuda.bindings import driver as cu

    from tests.driver_rules import emulator
    from tests.driver_rules.driving import ok

    name = ok(cu.cuDeviceGetName(128, 0)).split(b"\0")[0].decode()
    version = int(ok(cu.cuDriverGetVersion()))
    return {"version": version, "device": name, "emulated": emulator.is_emulated()}


def child(ask: Callable[[Any], Answer], write_end: int) -> None:
    """The child's side: asks on a bench of its own, writes the answer, and is gone without tidying up."""
    try:
        from cuda.bindings import driver as cu

        from tests.driver_rules.bench import Bench
        from tests.driver_rules.driving import ok

        ok(cu.cuInit(0))
        device = ok(cu.cuDeviceGet(0))
        context = ok(cu.cuDevicePrimaryCtxRetain(device))
        ok(cu.cuCtxSetCurrent(context))
        written = {"outcome": "answered", "answer": ask(Bench(context, device))}
    except BaseException:
        written = {"outcome": "failed", "error": traceback.format_exc(limit=-3)}
    data = json.dumps(written, default=int).encode()
    while data:
        data = data[os.write(write_end, data) :]
    os._exit(0)


@dataclass
class Asked:
    """A row under way."""

    row: Row
    pid: int
    started: float
    read_end: int
    data: bytearray = field(default_factory=bytearray)

    def finished(self, hung: bool) -> dict[str, Any]:
        """The record of this row, once its child is gone."""
        os.close(self.read_end)
        _, status = os.waitpid(self.pid, 0)
        record: dict[str, Any] = {"question": self.row.question, "row": self.row.name}
        record["seconds"] = round(time.monotonic() - self.started, 3)
        if hung:
            return {**record, "outcome": "hung"}
        if self.data:
            return {**record, **json.loads(self.data.decode())}
        killed = os.WIFSIGNALED(status)
        said = f"killed by {signal.Signals(os.WTERMSIG(status)).name}" if killed else f"exit {status >> 8}"
        return {**record, "outcome": said}


def start(row: Row) -> Asked:
    """Starts one row."""
    sys.stdout.flush()
    sys.stderr.flush()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        child(row.ask, write_end)
    os.close(write_end)
    return Asked(row, pid, time.monotonic(), read_end)


def ask_all(rows: Sequence[Row], *, jobs: int, limit: float) -> dict[str, Any]:
    """Asks all rows, ``jobs`` at a time; those not begun within ``limit`` seconds are recorded as not asked."""
    deadline = time.monotonic() + limit
    waiting = [Row(0, "driver", driver_facts), *rows]
    records: dict[int, dict[str, Any]] = {}
    under_way: dict[int, tuple[int, Asked]] = {}
    place = 0
    with selectors.DefaultSelector() as ready:
        while place < len(waiting) or under_way:
            now = time.monotonic()
            while place < len(waiting) and len(under_way) < jobs and now < deadline:
                asked = start(waiting[place])
                under_way[asked.read_end] = (place, asked)
                ready.register(asked.read_end, selectors.EVENT_READ)
                place += 1
            if now >= deadline:
                for number in range(place, len(waiting)):
                    records[number] = {"question": waiting[number].question, "row": waiting[number].name}
                    records[number]["outcome"] = "not asked"
                place = len(waiting)
            events = ready.select(timeout=0.5)
            done = [key.fd for key, _ in events if not receive(under_way[key.fd][1])]
            late = [fd for fd, (_, asked) in under_way.items() if time.monotonic() - asked.started > ROW_LIMIT]
            for fd in {*done, *late}:
                number, asked = under_way.pop(fd)
                ready.unregister(fd)
                hung = fd not in done
                if hung:
                    os.kill(asked.pid, signal.SIGKILL)
                records[number] = asked.finished(hung)
    driver = records.pop(0)
    return {"driver": driver.get("answer", driver), "rows": [records[number] for number in sorted(records)]}


def receive(asked: Asked) -> bool:
    """Takes what a row's child has written; whether more may come."""
    chunk = os.read(asked.read_end, 65536)
    asked.data += chunk
    return bool(chunk)
