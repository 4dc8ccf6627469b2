"""Rooms the runtime can join.  They all implement :class:`~realtime_venus.plugin.rooms.base.MediaRoom`."""
