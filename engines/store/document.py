"""``THIRD_PARTY_MODELS.md`` out of the manifest.

Make it anew with ``python -m realtime_venus.engines.store.document > THIRD_PARTY_MODELS.md``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby

from .errors import mega
from .manifest import Derived, Fetched, HubSource, Manifest, Packaged, Part, Source, UrlSource, load_manifest

_HEAD = """\
# Third-party models

Every model file that Realtime-Venus loads, with its licence and where it comes from. The SHA-256 decides: a source that
gives other bytes is refused. Made from `engines/store/manifest.toml` by
`python -m realtime_venus.engines.store.document`.
"""

_FETCHED = """\
## Fetched by `venus models pull`

Kept in `$XDG_CACHE_HOME/realtime-venus` (`~/.cache/realtime-venus`). The sources are asked in this order; registry
packages are downloaded by your own pip, uv or npm and read as data: nothing of them is installed or imported.
"""

_VENDORED = """\
## Shipped in this repository

In `engines/store/vendored/`, unchanged, with their notices beside them.
"""

_PACKAGED = """\
## Inside Python packages that the extras install
"""

_DERIVED = """\
## Made on your machine
"""


def third_party_models(manifest: Manifest) -> str:
    """The whole document."""
    return (
        "\n".join(
            (
                _HEAD,
                _FETCHED,
                *(_fetched(entry) for entry in manifest.fetched),
                _VENDORED,
                _table(
                    ("file", "size", "licence", "notice", "origin", "SHA-256"),
                    (
                        (f"`{e.path}`", mega(e.size), e.licence, _notice(e.notice), e.origin, f"`{e.sha256}`")
                        for e in manifest.vendored
                    ),
                ),
                _PACKAGED,
                _table(
                    ("file", "package", "size", "licence", "origin", "SHA-256"),
                    (_packaged(entry) for entry in manifest.packaged),
                ),
                _DERIVED,
                _table(("file", "from", "licence", "what"), (_derived(entry) for entry in manifest.derived)),
            )
        ).rstrip()
        + "\n"
    )


def _fetched(entry: Fetched) -> str:
    lines = [
        f"### {entry.name}\n",
        f"- {entry.origin}; {entry.use}{' (optional)' if entry.optional else ''}",
        f"- Licence: {entry.licence}{', ' + _notice(entry.notice) if entry.notice else ''}",
        f"- {entry.size:,} bytes, SHA-256 `{entry.sha256}`",
        *(f"- Source {number}: {_source(source)}" for number, source in enumerate(entry.sources, 1)),
        f"- Fallback: {entry.fallback}",
    ]
    return "\n".join(lines) + "\n"


def _source(source: Source) -> str:
    if isinstance(source, HubSource):
        return f"hub repository `{source.repository}`, revision `{source.revision}`, `{source.file}`"
    if isinstance(source, UrlSource):
        return f"<{source.url}>"
    runs = [list(run) for _, run in groupby(source.parts, key=lambda part: part.version)]
    return f"{source.kind} packages " + ", ".join(_run(run) for run in runs)


def _run(parts: Sequence[Part]) -> str:
    first, last = parts[0], parts[-1]
    span = f"`{first.package}`" if first == last else f"`{first.package}` … `{last.package}` ({len(parts)} parts)"
    return f"{span} version {first.version}"


def _packaged(entry: Packaged) -> Sequence[str]:
    package = f"{entry.distribution} {entry.version}"
    return f"`{entry.member}`", package, mega(entry.size), entry.licence, entry.origin, f"`{entry.sha256}`"


def _derived(entry: Derived) -> Sequence[str]:
    return f"`{entry.name}`", f"`{entry.base}`", entry.licence, entry.use


def _notice(path: str | None) -> str:
    return "" if path is None else f"[{path}](engines/store/vendored/{path})"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(third_party_models(load_manifest()))
