"""The manifest that is shipped."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from realtime_venus.engines.store.manifest import (
    VENDORED,
    Derived,
    HubSource,
    Manifest,
    PackageSource,
    UrlSource,
    load_manifest,
)

from ...kit.registry import fetched, hub_source


def test_every_fetched_file_has_an_official_source_first_and_registry_packages_as_well() -> None:
    for entry in load_manifest().fetched:
        first, *others = entry.sources
        assert isinstance(first, HubSource | UrlSource), entry.name
        assert any(isinstance(source, PackageSource) for source in others), entry.name


def test_every_notice_is_shipped() -> None:
    for entry in load_manifest().entries:
        if entry.notice is not None:
            assert (VENDORED / entry.notice).read_text(encoding="utf-8").strip(), entry.name


def test_everything_that_lies_in_the_vendored_folder_is_listed() -> None:
    manifest = load_manifest()
    listed = {entry.path for entry in manifest.vendored} | {entry.notice for entry in manifest.entries}
    texts = {"kokoro_voices/LICENSE", "licences/Apache-2.0.txt", "licences/kokoro-onnx-MIT.txt"}
    there = {str(path.relative_to(VENDORED)) for path in VENDORED.rglob("*") if path.is_file()}
    assert there <= listed | texts


def test_the_parts_of_a_file_are_as_many_bytes_compressed_as_they_may_be() -> None:
    for entry in load_manifest().fetched:
        for source in entry.sources:
            if isinstance(source, PackageSource) and source.kind == "pip" and len(source.parts) > 1:
                assert sum(part.size for part in source.parts) < 1.1 * entry.size, entry.name


def test_two_files_of_one_name_are_refused() -> None:
    one = fetched("a.bin", b"a", hub_source("a.bin"))
    with pytest.raises(ValidationError, match=r"named twice: a\.bin"):
        Manifest(fetched=(one, one))


def test_a_derived_file_needs_a_fetched_input() -> None:
    half = Derived(name="h", base="nothing", recipe="r", licence="", origin="", use="", fallback="")
    with pytest.raises(ValidationError, match="no fetched file"):
        Manifest(derived=(half,))


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../b", "a//b", "", ".hidden", "a/", "a\\b"])
def test_names_cannot_lead_out_of_the_cache(name: str) -> None:
    with pytest.raises(ValidationError):
        fetched(name, b"a", hub_source("a.bin"))
