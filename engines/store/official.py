"""Files of official hosts over HTTPS: gives up soon where the host cannot be reached, goes on after a break."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path
from threading import Lock, Thread
from typing import IO
from urllib.parse import urlsplit

from .disk import BLOCK, full_disk_explained
from .errors import DiskFull, FetchFailed, PullCancelled
from .fetching import Job

_AGENT = "realtime-venus"


class OfficialFetcher:
    """Downloads by URL.  A host that did not answer once is not asked again in this object's life."""

    def __init__(self, connect_timeout_s: float, read_timeout_s: float) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._read_timeout_s = read_timeout_s
        self._hosts: dict[str, str | None] = {}
        self._probing = Lock()

    def fetch(self, url: str, partial: Path, size: int, job: Job) -> None:
        """See :class:`UrlFetcher`."""
        self._require_answer(url)
        have = partial.stat().st_size if partial.exists() else 0
        if have >= size:
            if have == size:
                return
            partial.unlink()
            have = 0
        headers = {"User-Agent": _AGENT, "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        request = urllib.request.Request(url, headers=headers)  # noqa: S310  (the manifest and the settings allow http and https only)
        try:
            with (
                full_disk_explained(partial.parent),
                urllib.request.urlopen(request, timeout=self._read_timeout_s) as body,  # noqa: S310
            ):
                resumed = body.status == http.HTTPStatus.PARTIAL_CONTENT
                with partial.open("ab" if resumed else "wb") as file:
                    _copy(body, file, have if resumed else 0, size, job)
        except DiskFull:
            partial.unlink(missing_ok=True)
            raise
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                partial.unlink(missing_ok=True)
            raise FetchFailed(f"{urlsplit(url).netloc} answered {error.code}") from error
        except (OSError, http.client.HTTPException) as error:
            raise FetchFailed(f"{urlsplit(url).netloc} broke off: {error}") from error
        if partial.stat().st_size != size:
            raise FetchFailed(f"{urlsplit(url).netloc} gave {partial.stat().st_size} of {size} bytes")

    def _require_answer(self, url: str) -> None:
        host = urlsplit(url).netloc
        with self._probing:
            if host not in self._hosts:
                self._hosts[host] = self._probe(url)
            trouble = self._hosts[host]
        if trouble is not None:
            raise FetchFailed(f"{host} cannot be reached: {trouble}")

    def _probe(self, url: str) -> str | None:
        """What is wrong with the host, or ``None``.  Looking up a name has no timeout of its own, hence the thread."""
        found: list[str | None] = []

        def ask() -> None:
            request = urllib.request.Request(url, method="HEAD", headers={"User-Agent": _AGENT})  # noqa: S310
            try:
                urllib.request.urlopen(request, timeout=self._connect_timeout_s).close()  # noqa: S310
            except urllib.error.HTTPError as error:
                error.close()  # an answer all the same
            except urllib.error.URLError as error:
                found.append(str(error.reason))
                return
            except (OSError, http.client.HTTPException) as error:
                found.append(str(error) or type(error).__name__)
                return
            found.append(None)

        thread = Thread(target=ask, name="venus-probe", daemon=True)
        thread.start()
        thread.join(1.5 * self._connect_timeout_s)  # so that only a name that is not found leaves the thread behind
        return found[0] if found else f"no answer within {self._connect_timeout_s:g} s"


def _copy(body: IO[bytes], file: IO[bytes], have: int, size: int, job: Job) -> None:
    while block := body.read(BLOCK):
        have += len(block)
        if have > size:
            raise FetchFailed(f"more than the expected {size} bytes came")
        file.write(block)
        job.report(have)
        if job.cancelled():
            raise PullCancelled
