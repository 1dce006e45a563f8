"""Benchmarks: each a ratio, measured interleaved in one run."""
