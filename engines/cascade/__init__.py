"""The default engine: an offline English/Chinese voice cascade on the CPU."""
