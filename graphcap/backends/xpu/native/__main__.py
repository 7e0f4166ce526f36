"""Build the native tier's extension ahead of its first use.

::

    python -m graphcap.backends.xpu.native              # into the user's cache
    python -m graphcap.backends.xpu.native --in-place   # beside the package, for a container image
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from graphcap.backends.xpu.native.build import BuildError, build_extension, cache_path, find_toolchain, packaged_path


def main(arguments: Sequence[str] | None = None) -> int:
    """Build, and print where the file lies."""
    parser = argparse.ArgumentParser(
        prog="python -m graphcap.backends.xpu.native", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--in-place", action="store_true", help="beside the package instead of the user's cache")
    options = parser.parse_args(arguments)
    try:
        toolchain = find_toolchain()
        target = packaged_path(toolchain) if options.in_place else cache_path(toolchain)
        print(build_extension(toolchain, target))
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
