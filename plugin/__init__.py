"""The runtime: one causal timeline between a room and an engine."""
