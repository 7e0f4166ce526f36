"""A segment source that has no device, and that refuses everything the contract forbids.

Work on a stream is a counter: ``submitted[stream]`` goes up with every use, ``done[stream]`` follows when a test lets the
device get on. An event completes when ``done`` has reached what was submitted when it was recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass


class ContractBrokenError(AssertionError):
    """The manager did what it promised never to do."""


@dataclass
class FakeEvent:
    stream: int
    value: int
    released: bool = False


class StrictSource:
    """Checks every call; keeps what it finds in ``violations`` as well, because a caller might swallow the error."""

    def __init__(self, label: str = "fake:0", capacity: int | None = None, scatter: bool = False) -> None:
        self._label = label
        self.capacity = capacity
        self.scatter = scatter
        self.segments: dict[int, int] = {}
        self.violations: list[str] = []
        self.open_captures = 0
        self.submitted: Counter[int] = Counter()
        self.done: Counter[int] = Counter()
        self.events: list[FakeEvent] = []
        self.allocations_to_fail = 0
        self.errors: dict[str, Exception] = {}
        self.calls: Counter[str] = Counter()
        self.during_allocation: Callable[[], object] | None = None
        self._below = self._above = 1 << 40

    @property
    def label(self) -> str:
        return self._label

    @property
    def alignment(self) -> int:
        return 512

    @property
    def reserved(self) -> int:
        return sum(self.segments.values())

    def _called(self, name: str, allowed_in_capture: bool) -> None:
        self.calls[name] += 1
        if self.open_captures and not allowed_in_capture:
            self._broken(f"{name} while a capture is open")
        error = self.errors.pop(name, None)
        if error is not None:
            raise error

    def _broken(self, what: str) -> None:
        self.violations.append(what)
        raise ContractBrokenError(what)

    def allocate_segment(self, nbytes: int, stream: int) -> int:
        self._called("allocate_segment", allowed_in_capture=True)
        if self.during_allocation is not None:
            action, self.during_allocation = self.during_allocation, None
            action()
        if self.allocations_to_fail:
            self.allocations_to_fail -= 1
            raise MemoryError("told to fail")
        if self.capacity is not None and self.reserved + nbytes > self.capacity:
            raise MemoryError(f"{nbytes} bytes do not fit")
        if nbytes <= 0 or nbytes % 512:
            self._broken(f"a segment of {nbytes} bytes was asked for")
        if self.scatter and len(self.segments) % 2:  # addresses that do not grow
            self._below -= nbytes + 4096
            address = self._below
        else:
            address = self._above
            self._above += nbytes + 4096
        self.segments[address] = nbytes
        return address

    def free_segment(self, address: int, nbytes: int) -> None:
        self._called("free_segment", allowed_in_capture=False)
        if self.segments.get(address) != nbytes:
            self._broken(f"segment 0x{address:x} of {nbytes} bytes is not out")
        del self.segments[address]

    def record_event(self, stream: int) -> FakeEvent:
        self._called("record_event", allowed_in_capture=False)
        event = FakeEvent(stream, self.submitted[stream])
        self.events.append(event)
        return event

    def _check(self, event: FakeEvent) -> None:
        if event.released:
            self._broken("an event was used after its release")

    def query_event(self, event: FakeEvent) -> bool:
        self._called("query_event", allowed_in_capture=False)
        self._check(event)
        return self.done[event.stream] >= event.value

    def synchronize_event(self, event: FakeEvent) -> None:
        self._called("synchronize_event", allowed_in_capture=False)
        self._check(event)
        self.done[event.stream] = max(self.done[event.stream], event.value)

    def release_event(self, event: FakeEvent) -> None:
        self._called("release_event", allowed_in_capture=False)
        self._check(event)
        if self.done[event.stream] < event.value:
            self._broken("an event was released before it completed")
        event.released = True
        self.events.remove(event)

    def memory_info(self) -> tuple[int, int] | None:
        return None if self.capacity is None else (self.capacity - self.reserved, self.capacity)

    # What tests do --------------------------------------------------------------------------------------------------

    def submit(self, stream: int) -> None:
        """Some work on a stream."""
        self.submitted[stream] += 1

    def finish(self, stream: int) -> None:
        """The device has done all work of a stream."""
        self.done[stream] = self.submitted[stream]


class StrictMemory(StrictSource):
    """With bytes behind the addresses, so that debug mode can look at them."""

    def __init__(self, label: str = "fake:0", capacity: int | None = None) -> None:
        super().__init__(label, capacity)
        self.contents: dict[int, bytearray] = {}

    def allocate_segment(self, nbytes: int, stream: int) -> int:
        address = super().allocate_segment(nbytes, stream)
        self.contents[address] = bytearray(nbytes)
        return address

    def free_segment(self, address: int, nbytes: int) -> None:
        super().free_segment(address, nbytes)
        del self.contents[address]

    def _find(self, address: int, nbytes: int) -> tuple[bytearray, int]:
        for start, size in self.segments.items():
            if start <= address and address + nbytes <= start + size:
                return self.contents[start], address - start
        raise ContractBrokenError(f"0x{address:x} is in no segment")

    def fill(self, address: int, nbytes: int, value: int, stream: int) -> None:
        self._called("fill", allowed_in_capture=False)
        data, offset = self._find(address, nbytes)
        data[offset : offset + nbytes] = bytes([value]) * nbytes

    def read(self, address: int, nbytes: int, stream: int) -> bytes:
        self._called("read", allowed_in_capture=False)
        data, offset = self._find(address, nbytes)
        return bytes(data[offset : offset + nbytes])

    def write(self, address: int, data: bytes) -> None:
        """What a kernel of the user's does."""
        memory, offset = self._find(address, len(data))
        memory[offset : offset + len(data)] = data
