"""Lines for people, or JSON for a log store.  What users said (the key ``private``) is in neither, nor are tokens."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Literal

from ..redaction import redacted

_STANDARD = frozenset((*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"))
_LEFT_OUT = frozenset(("private", "job", "job_request", "ws_data"))
"""Besides the marked key: what the LiveKit library logs of messages, in which metadata can be."""
_QUIET = {"aiohttp.access": logging.WARNING, "asyncio": logging.WARNING}


def extras(record: logging.LogRecord) -> Mapping[str, Any]:
    """What was given with the message beyond what every record has."""
    known = _STANDARD | _LEFT_OUT
    return {name: value for name, value in vars(record).items() if name not in known and not name.startswith("_")}


class Lines(logging.Formatter):
    """``12:00:01 INFO  realtime_venus.plugin.worker: ready for jobs slots=2``."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        said = "".join(f" {name}={value!r}" for name, value in extras(record).items())
        line = f"{moment} {record.levelname:<7} {record.name}: {record.getMessage()}{said}"
        return redacted(f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line)


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        content: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **extras(record),
        }
        if record.exc_info:
            content["exception"] = self.formatException(record.exc_info)
        return redacted(json.dumps(content, ensure_ascii=False, default=repr))


def set_up(level: str, style: Literal["text", "json"]) -> None:
    """Log to the error stream."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if style == "json" else Lines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(least, logging.getLogger().level))
