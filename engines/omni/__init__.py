"""The omni engine: the published network (MiniCPM-o 4.5 layout), its duplex protocol, and sessions around it."""
