"""Parameters in captured CUDA work: which node takes which, and how an executable's node is given new values.

A kernel launched with a parameter remembers its packed arguments; a fill its pattern. Before the first replay after a change the
nodes concerned get their parameters anew (``cuGraphExecKernelNodeSetParams``, ``cuGraphExecMemsetNodeSetParams``): launches in flight
keep theirs, and a replay without a change costs nothing. The node handles are the template's, which is therefore kept.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphcap.backends.cuda import _graph_calls as graph_calls
from graphcap.backends.cuda.launch import packed_pointers
from graphcap.backends.parameter_uses import Use
from graphcap.backends.parameters import Scalar, fitted

__all__ = ["FillBinding", "KernelBinding", "NodeBinding"]


class _State:
    """What a node's executable has, or is to have. Apart from the binding, which owns those who write here: no cycle."""

    __slots__ = ("changed", "values")

    def __init__(self, values: list[Any]) -> None:
        self.values = values
        self.changed = False

    def store(self, index: int, packed: Any) -> None:
        self.values[index] = packed
        self.changed = True


class NodeBinding(abc.ABC):
    """A node whose parameters depend on scalars.

    Attributes
    ----------
    uses
        Where in the node.
    """

    def __init__(self, values: list[Any]) -> None:
        self._state = _State(values)
        self.uses: list[Use] = []

    def _use(self, scalar: Scalar, where: str, index: int, pack: Callable[[Any], Any]) -> Use:
        use = Use(scalar, where, pack, partial(self._state.store, index))
        self.uses.append(use)
        return use

    @property
    def changed(self) -> bool:
        """Whether the executable's node has other values than these. May be set."""
        return self._state.changed

    @changed.setter
    def changed(self, changed: bool) -> None:
        self._state.changed = changed

    @property
    def names(self) -> tuple[str, ...]:
        """The scalars in words, for the topology."""
        return tuple(dict.fromkeys(str(use.scalar) for use in self.uses))

    def push(self, executable: int, node: int, context: int) -> None:
        """Give the node of the executable the present values."""
        self._push(executable, node, context)
        self.changed = False

    @abc.abstractmethod
    def _push(self, executable: int, node: int, context: int) -> None:
        """As :meth:`push`."""

    @abc.abstractmethod
    def copy(self) -> NodeBinding:
        """The same for a node of another graph."""


class KernelBinding(NodeBinding):
    """A kernel node with scalars among its arguments.

    Parameters
    ----------
    values
        All packed arguments.
    scalars
        Positions and scalars.
    name
        The kernel's, for messages.
    row
        Of a node that launches something else than the template's: that launch.
    """

    def __init__(
        self,
        values: Sequence[np.ndarray[Any, Any]],
        scalars: Sequence[tuple[int, Scalar]],
        name: str,
        row: graph_calls.KernelRow | None = None,
    ) -> None:
        super().__init__(list(values))
        self._scalars, self._name, self._row = scalars, name, row
        for index, scalar in scalars:
            where = f"{scalar} in argument {index}{f' of kernel {name!r}' if name else ''}"
            self._use(scalar, where, index, partial(_packed_argument, values[index].dtype, where))

    def _push(self, executable: int, node: int, context: int) -> None:
        row = self._row or graph_calls.kernel_params(node)
        pointers = packed_pointers(self._state.values)
        address = int(pointers.__array_interface__["data"][0])
        graph_calls.set_kernel_params(executable, node, row._replace(parameters=address), "a new value of a parameter")

    def copy(self) -> KernelBinding:
        return KernelBinding(self._state.values, self._scalars, self._name, self._row)


class FillBinding(NodeBinding):
    """A fill with a scalar: one word of the item, of which wider items have several nodes."""

    def __init__(self, scalar: Scalar, dtype: np.dtype[Any], offset: int, width: int) -> None:
        super().__init__([0])
        self._made_of = scalar, dtype, offset, width
        where = f"{scalar} in a fill of {dtype} items"
        use = self._use(scalar, where, 0, partial(_packed_word, dtype, offset, width, where))
        self._state.values[0] = use.packed

    def _push(self, executable: int, node: int, context: int) -> None:
        row = graph_calls.memset_params(node)._replace(value=self._state.values[0])
        graph_calls.set_memset_params(executable, node, row, context, "a new value of a parameter")

    def copy(self) -> FillBinding:
        return FillBinding(*self._made_of)


def _packed_argument(dtype: np.dtype[Any], where: str, value: Any) -> np.ndarray[Any, Any]:
    if dtype.kind in "iu" and not isinstance(value, np.generic):
        # A Python int is signed or not as its size asks for: the driver tells sizes alone.
        try:
            return fitted(value, np.dtype(f"i{dtype.itemsize}"), where).reshape(1)
        except OverflowError:
            return fitted(value, np.dtype(f"u{dtype.itemsize}"), where).reshape(1)
    return fitted(value, dtype, where).reshape(1)


def _packed_word(dtype: np.dtype[Any], offset: int, width: int, where: str, value: Any) -> int:
    return int.from_bytes(fitted(value, dtype, where).tobytes()[offset : offset + width], "little")
