"""The omni engine: the published network (MiniCPM-o 4.5 layout), its duplex protocol, and sessions around it.

Whatever is imported from here needs the ``omni`` extra, and says so where it is missing.
"""

from __future__ import annotations

from importlib import import_module

from ..base import MissingExtra

for _name in ("torch", "safetensors", "tokenizers", "PIL", "yaml"):
    try:
        import_module(_name)
    except ImportError as error:
        raise MissingExtra(__name__, "omni") from error
