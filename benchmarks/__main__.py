"""Run the benchmarks, each in a process of its own: ``python -m benchmarks [name ...] [--json FOLDER]``."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
HELPERS = {"__init__", "__main__", "timing", "warp_chain"}
ARGUMENTS = {"cuda_replay": [] if Path("/dev/nvidiactl").exists() else ["--emulated"]}
WITHOUT_JSON = {"dot"}


def main() -> int:
    """Run the named benchmarks, or all; the exit code is 1 if one failed."""
    names = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in HELPERS)
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("names", nargs="*", choices=[[], *names], help=f"default: all of {', '.join(names)}")
    parser.add_argument("--json", type=Path, metavar="FOLDER", help="also write the figures here, a file each")
    options = parser.parse_args()
    if options.json is not None:
        options.json.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in options.names or names:
        print(f"\n== {name}", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", *ARGUMENTS.get(name, [])]
        if options.json is not None and name not in WITHOUT_JSON:
            command += ["--json", str(options.json.resolve() / f"{name}.json")]
        if subprocess.run(command, cwd=HERE.parent).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
