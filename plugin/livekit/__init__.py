"""What LiveKit users get: a duplex model for ``AgentSession`` and the offline parts as ordinary LiveKit components."""
