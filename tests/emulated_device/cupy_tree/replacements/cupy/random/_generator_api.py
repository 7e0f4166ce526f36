"""NumPy's newer random interface (``cupy.random.Generator``): not on the emulated device.

Takes the place of the extension of that name, which carries NVIDIA's runtime and kernels compiled beforehand.
"""

from __future__ import annotations

import typing


def _refuse(name: str) -> typing.NoReturn:
    raise NotImplementedError(
        f"cupy.random.{name}: the bit-generator interface is not on the emulated device (its extension carries NVIDIA's "
        "runtime and kernels compiled beforehand). Use cupy.random.rand, randn, randint or RandomState here, or draw with NumPy "
        "and copy; test this part on a GPU."
    )


def init_curand(generator: int, state: object, seed: int, size: int) -> typing.NoReturn:
    """Refuses: the constructors of XORWOW, MRG32k3a and Philox4x3210 come here, and so does default_rng."""
    _refuse("default_rng and its bit generators")


def random_raw(generator: int, out: object) -> typing.NoReturn:
    """Refuses: BitGenerator.random_raw comes here."""
    _refuse("BitGenerator.random_raw")


class Generator:
    """Refuses to be made; its methods are there to be found."""

    bit_generator: object

    def __init__(self, bit_generator: object) -> None:
        _refuse("Generator")


def _method(name: str) -> typing.Callable[..., typing.NoReturn]:
    def refuse(self: Generator, *args: object, **kwargs: object) -> typing.NoReturn:
        _refuse(f"Generator.{name}")

    refuse.__name__ = name
    refuse.__qualname__ = f"Generator.{name}"
    return refuse


for _name in [
    "beta",
    "binomial",
    "chisquare",
    "dirichlet",
    "exponential",
    "f",
    "gamma",
    "geometric",
    "hypergeometric",
    "integers",
    "logseries",
    "poisson",
    "power",
    "random",
    "standard_exponential",
    "standard_gamma",
    "standard_normal",
    "uniform",
]:
    setattr(Generator, _name, _method(_name))


class FeistelBijection:
    """Draws without replacement for ``RandomState.choice``: by NumPy on the host from the same keys, not CuPy's own sequence."""

    num_rounds = 24

    def __init__(self, num_elements: int, keys_array: typing.Any) -> None:
        self._elements = num_elements
        self._keys = keys_array

    def __call__(self, size: int) -> typing.Any:
        import cupy
        import numpy

        order = numpy.random.default_rng(self._keys).permutation(self._elements)
        return cupy.asarray(order[:size].astype(numpy.int64))
