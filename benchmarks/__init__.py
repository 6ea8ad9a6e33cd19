"""Named workloads; `python -m benchmarks` runs them."""
