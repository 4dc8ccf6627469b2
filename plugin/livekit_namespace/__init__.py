"""``livekit.plugins.venus``: the name under which LiveKit users look for :mod:`realtime_venus.plugin.livekit`."""
