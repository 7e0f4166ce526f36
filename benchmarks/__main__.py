"""Run the benchmarks, each in a process of its own: ``python -m benchmarks [name ...] [--json FOLDER]``."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
HELPERS = {"__init__", "__main__", "timing"}


def main() -> int:
    """Run the named benchmarks, or all; the exit code is 1 if one failed."""
    names = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in HELPERS)
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("names", nargs="*", choices=[[], *names], help=f"default: all of {', '.join(names)}")
    options = parser.parse_args()
    failed = []
    for name in options.names or names:
        print(f"\n== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=HERE.parent).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
