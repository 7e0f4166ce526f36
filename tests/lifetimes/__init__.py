"""Who owns what a graph's nodes use: stale pointers, aliases, and the order of replays, on every backend."""
