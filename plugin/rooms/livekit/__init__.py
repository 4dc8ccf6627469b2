"""A LiveKit room: several people, one agent.  Needs the ``livekit`` extra."""
