"""``python -m tests.emulated_device.cupy_tree``: build the tree, with the time of each step."""

from __future__ import annotations

from . import build, pins

print(pins.LABEL)
tree = build.build(print)
print(tree.root)
