"""Speed, measured as ratios against peers within one run. ``python -m benchmarks`` runs all; nothing here is a test."""
