"""Downloads by URL against a real server on the loopback address."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from realtime_venus.engines.store.errors import DiskFull, FetchFailed, PullCancelled
from realtime_venus.engines.store.fetching import Job
from realtime_venus.engines.store.official import OfficialFetcher

CONTENT = bytes(range(256)) * 8192  # 2 MiB
QUIET = Job(report=lambda have: None, cancelled=lambda: False)


class Handler(BaseHTTPRequestHandler):
    """Serves :data:`CONTENT` under ``/whole``, and under other paths what bad hosts do."""

    ranges: ClassVar[list[str | None]] = []

    def do_HEAD(self) -> None:
        self.send_response(405)
        self.end_headers()

    def do_GET(self) -> None:
        wanted = self.headers["Range"]
        Handler.ranges.append(wanted)
        first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.path != "/no-ranges" else 0
        if self.path == "/gone":
            self.send_error(404)
            return
        if self.path == "/unsatisfiable":
            self.send_error(416)
            return
        self.send_response(206 if first else 200)
        body = CONTENT[first:]
        if self.path == "/long":
            body += b"more"
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/breaks-off" else body)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class names it)
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "*")
    Handler.ranges = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = False
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


@pytest.fixture
def fetcher() -> OfficialFetcher:
    return OfficialFetcher(connect_timeout_s=5, read_timeout_s=5)


def test_a_file_comes_whole(server: str, fetcher: OfficialFetcher, tmp_path: Path) -> None:
    seen: list[int] = []
    partial = tmp_path / "partial"
    fetcher.fetch(f"{server}/whole", partial, len(CONTENT), Job(seen.append, lambda: False))
    assert partial.read_bytes() == CONTENT
    assert seen[-1] == len(CONTENT)
    assert seen == sorted(seen)


@pytest.mark.parametrize(("path", "asked"), [("/whole", "bytes=1000-"), ("/no-ranges", "bytes=1000-")])
def test_a_partial_file_is_completed(
    server: str, fetcher: OfficialFetcher, tmp_path: Path, path: str, asked: str
) -> None:
    partial = tmp_path / "partial"
    partial.write_bytes(CONTENT[:1000])
    fetcher.fetch(f"{server}{path}", partial, len(CONTENT), QUIET)
    assert partial.read_bytes() == CONTENT
    assert Handler.ranges == [asked]


def test_a_complete_file_is_not_asked_for_again(server: str, fetcher: OfficialFetcher, tmp_path: Path) -> None:
    partial = tmp_path / "partial"
    partial.write_bytes(CONTENT)
    fetcher.fetch(f"{server}/whole", partial, len(CONTENT), QUIET)
    assert Handler.ranges == []


def test_a_partial_file_that_is_too_long_is_begun_anew(server: str, fetcher: OfficialFetcher, tmp_path: Path) -> None:
    partial = tmp_path / "partial"
    partial.write_bytes(CONTENT + b"x")
    fetcher.fetch(f"{server}/whole", partial, len(CONTENT), QUIET)
    assert partial.read_bytes() == CONTENT


def test_what_came_before_a_break_is_kept(server: str, fetcher: OfficialFetcher, tmp_path: Path) -> None:
    partial = tmp_path / "partial"
    with pytest.raises(FetchFailed, match=r"gave 1048576 of 2097152 bytes|broke off"):
        fetcher.fetch(f"{server}/breaks-off", partial, len(CONTENT), QUIET)
    assert partial.read_bytes() == CONTENT[: len(CONTENT) // 2]


def test_more_than_expected_is_refused(server: str, fetcher: OfficialFetcher, tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match="more than the expected"):
        fetcher.fetch(f"{server}/long", tmp_path / "partial", len(CONTENT), QUIET)


def test_an_error_status_is_named(server: str, fetcher: OfficialFetcher, tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match="answered 404"):
        fetcher.fetch(f"{server}/gone", tmp_path / "partial", len(CONTENT), QUIET)


def test_a_part_that_the_host_will_not_complete_is_dropped(
    server: str, fetcher: OfficialFetcher, tmp_path: Path
) -> None:
    partial = tmp_path / "partial"
    partial.write_bytes(b"x")
    with pytest.raises(FetchFailed, match="answered 416"):
        fetcher.fetch(f"{server}/unsatisfiable", partial, len(CONTENT), QUIET)
    assert not partial.exists()


def test_a_download_can_be_stopped(server: str, fetcher: OfficialFetcher, tmp_path: Path) -> None:
    with pytest.raises(PullCancelled):
        fetcher.fetch(f"{server}/whole", tmp_path / "partial", len(CONTENT), Job(lambda have: None, lambda: True))


def test_a_full_disk_keeps_nothing(server: str, fetcher: OfficialFetcher, tmp_path: Path) -> None:
    partial = tmp_path / "partial"
    partial.symlink_to("/dev/full")
    with pytest.raises(DiskFull):
        fetcher.fetch(f"{server}/whole", partial, len(CONTENT), QUIET)
    assert not partial.is_symlink()


def test_a_host_that_refuses_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/file"
        fetcher = OfficialFetcher(connect_timeout_s=5, read_timeout_s=5)
        with pytest.raises(FetchFailed, match="cannot be reached"):
            fetcher.fetch(url, tmp_path / "partial", 5, QUIET)
        taken.listen()  # would hang now, were it asked again
        with pytest.raises(FetchFailed, match="cannot be reached"):
            fetcher.fetch(url, tmp_path / "partial", 5, QUIET)


def test_a_host_that_never_answers_is_given_up_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        fetcher = OfficialFetcher(connect_timeout_s=0.1, read_timeout_s=60)
        with pytest.raises(FetchFailed, match="cannot be reached"):
            fetcher.fetch(f"http://127.0.0.1:{silent.getsockname()[1]}/file", tmp_path / "partial", 5, QUIET)
