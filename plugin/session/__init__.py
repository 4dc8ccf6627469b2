"""One conversation between a room and an engine: a pure core and a thin driver around it."""
