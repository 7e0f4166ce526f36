"""Tests of the memory-pool manager over a strict source that has no device."""
