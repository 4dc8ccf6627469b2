"""THIRD_PARTY_MODELS.md is in step with the manifest."""

from __future__ import annotations

from realtime_venus.engines.store.document import third_party_models
from realtime_venus.engines.store.manifest import load_manifest

from ...kit.repository import ROOT


def test_the_document_is_the_one_that_the_manifest_gives() -> None:
    text = (ROOT / "THIRD_PARTY_MODELS.md").read_text(encoding="utf-8")
    assert text == third_party_models(load_manifest()), "run: python -m realtime_venus.engines.store.document"


def test_every_file_is_in_it_with_its_licence_and_hash() -> None:
    manifest = load_manifest()
    text = third_party_models(manifest)
    for entry in (*manifest.fetched, *manifest.vendored, *manifest.packaged):
        assert entry.sha256 in text
        assert entry.licence in text


def test_every_link_leads_somewhere() -> None:
    for line in third_party_models(load_manifest()).splitlines():
        for target in line.split("](")[1:]:
            assert (ROOT / target.split(")")[0]).is_file()
