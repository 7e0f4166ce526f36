"""What waits to be let go, where its event is not there any more."""

from __future__ import annotations

import graphcap
from graphcap.backends.cuda import _calls as calls
from graphcap.backends.cuda import _driver as driver
from graphcap.backends.cuda.context import DeviceGuard
from graphcap.backends.cuda.trash import _Owners


def test_an_event_that_is_somebody_elses_by_now_is_not_waited_for() -> None:
    """After a reset of its context an event's handle may be given to another, which a capture then records."""
    stream = graphcap.Stream("cuda")
    memory = stream.allocate(4)
    payload: list[object] = [object()]
    waiting = _Owners(payload, [], 0)
    with stream, graphcap.Graph("cuda"):
        stream.fill(memory, 1)
        event = calls.create_event(timing=False)
        driver.call("cuEventRecord", event, stream.handle)
        waiting.events.append(event)
    with DeviceGuard(0):
        assert waiting.try_now()
        driver.call("cuEventDestroy", event)
    assert not payload
