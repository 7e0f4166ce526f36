"""Fifteen questions that the evidence leaves open, put to whichever driver answers; nothing is asserted.

``python -m tests.driver_rules.probes --out FILE`` asks them all, each row in a process of its own, and writes the answers as
JSON. ``python -m tests.driver_rules.probes.compare HARDWARE.json [OTHER.json]`` lists where two drivers differ. The questions
are those of section 5 of the evidence page; their numbers are its numbers.
"""
