"""A model hub on the loopback address: lists a repository and serves its files, whole or from a byte on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote


def git_sha1(content: bytes) -> str:
    """The hash by which git knows a content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


@dataclass
class Hub:
    """``files`` by their path in the repository; those in ``large`` are listed with a SHA-256, as large files are.

    ``listing`` replaces the listing.  ``cut`` is how many bytes a file gives before its connection breaks, once.
    """

    repository: str
    files: dict[str, bytes]
    large: set[str] = field(default_factory=set[str])
    licence: str = "apache-2.0"
    revision: str = "a" * 40
    listing: bytes | None = None
    status: int = 200
    cut: dict[str, int] = field(default_factory=dict[str, int])
    asked: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    """Path and ``Range`` of every download."""
    url: str = ""

    def list(self) -> bytes:
        """What the hub says of the repository."""
        siblings: list[dict[str, Any]] = []
        for name, content in self.files.items():
            one: dict[str, Any] = {"rfilename": name, "size": len(content), "blobId": git_sha1(content)}
            if name in self.large:
                one["lfs"] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
            siblings.append(one)
        answer = {"sha": self.revision, "cardData": {"license": self.licence}, "siblings": siblings, "gated": False}
        return json.dumps(answer).encode() if self.listing is None else self.listing

    def get(self, path: str, wanted: str | None) -> tuple[int, bytes, int]:
        """Status, body, and how much of the body is sent before the connection breaks."""
        if path == f"/api/models/{self.repository}?blobs=true":
            body = self.list()
            return self.status, body, len(body)
        name = unquote(path).removeprefix(f"/{self.repository}/resolve/{self.revision}/")
        if name not in self.files:
            return 404, b"", 0
        self.asked.append((name, wanted))
        first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        body = self.files[name][first:]
        return 206 if first else 200, body, self.cut.pop(name, len(body))


@contextmanager
def serving(hub: Hub) -> Generator[Hub]:
    """Serve ``hub``; its ``url`` says where."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.end_headers()

        def do_GET(self) -> None:
            status, body, sent = hub.get(self.path, self.headers["Range"])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:sent])
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = False
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        hub.url = f"http://127.0.0.1:{http.server_port}"
        try:
            yield hub
        finally:
            http.shutdown()
            thread.join()
