"""The example distribution has tests of its own, which run where it is installed."""

collect_ignore = ["npu"]
