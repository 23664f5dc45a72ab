"""Benchmarks: `python -m tests.bench score --json F`. Rows of case, ours, peer_name, peer, unit, ratio.

Nothing here is a test: a time depends on the machine and on its neighbours, so ours and the peer take turns and the
medians are printed.
"""
