"""The CPU backend: captures NumPy-shaped work and replays it. It is also the executable description of the capture rules.

Reading order: ``captures`` (the rules), ``stream`` (streams, events, work), ``graph`` (the implementation), ``replay`` (the
executable), ``source`` (memory), ``array`` (the array namespace).
"""

from graphcap.backends.cpu.backend import CPUBackend, cpu_backend
from graphcap.backends.cpu.graph import CPUGraphImpl

__all__ = ["CPUBackend", "CPUGraphImpl", "cpu_backend"]
