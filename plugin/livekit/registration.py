"""The plugin as LiveKit knows it: listed, preloaded by workers, and able to fetch its files."""

from __future__ import annotations

import logging
import threading
from importlib import metadata

from livekit.agents import Plugin

__version__ = metadata.version("realtime-venus")

_NAME = "livekit.plugins.venus"
_log = logging.getLogger(__name__)


class VenusPlugin(Plugin):
    """``download-files`` of LiveKit fetches the models, as ``venus models pull`` does."""

    def __init__(self) -> None:
        super().__init__(_NAME, __version__, _NAME, logging.getLogger("realtime_venus"))

    def download_files(self) -> None:
        """Fetch and verify what the default engine needs.  Raises :class:`~realtime_venus.engines.base.VenusError`."""
        from ...engines.store import ModelsSettings, Store  # brings the download code
        from ..settings import load_settings

        Store(load_settings().section(ModelsSettings)).pull()


def register() -> None:
    """Register the plugin once.  LiveKit allows it on the main thread only; elsewhere the model works unregistered."""
    if any(isinstance(plugin, VenusPlugin) for plugin in Plugin.registered_plugins):
        return
    if threading.current_thread() is threading.main_thread():
        Plugin.register_plugin(VenusPlugin())
    else:
        _log.warning("imported off the main thread: livekit.plugins.venus is not registered as a plugin")
