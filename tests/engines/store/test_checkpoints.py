"""The published weights against a hub on the loopback address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from realtime_venus.engines.base import EngineError
from realtime_venus.engines.store.checkpoints import (
    FOLDERS,
    REPOSITORY,
    HubUnreachable,
    Release,
    checkpoint_folder,
    fetched_folder,
    git_sha1,
    list_release,
)
from realtime_venus.engines.store.errors import DiskFull, PullCancelled, PullFailed, StoreError
from realtime_venus.engines.store.settings import ModelsSettings

from ...kit import hub as kit
from ...kit.hub import Hub, serving

WEIGHTS = bytes(range(256)) * 4096  # 1 MiB
FILES = {
    "README.md": b"# Realtime-Venus",
    "Realtime-Venus-Omni/config.json": b'{"model_type": "realtime_venus_omni"}',
    "Realtime-Venus-Omni/model-00001-of-00001.safetensors": WEIGHTS,
    "Realtime-Venus-Omni/assets/token2wav/flow one.pt": WEIGHTS[:5000],
    "Realtime-Venus-Omni/copy.safetensors": WEIGHTS,
    "Realtime-Venus-Omni/empty.txt": b"",
    "Realtime-Venus-Omni/modeling.py": b"raise SystemExit",
    "Realtime-Venus-Omni/.gitattributes": b"*",
    "Realtime-Venus-Audio/config.json": b'{"model_type": "minicpmo"}',
}
LARGE = {name for name in FILES if name.endswith((".safetensors", ".pt"))}
WANTED = {name.removeprefix("Realtime-Venus-Omni/") for name in FILES if name.startswith("Realtime-Venus-Omni/")} - {
    "modeling.py",
    ".gitattributes",
}


class Lines:
    """Progress that keeps what it is told, and may end the pull."""

    def __init__(self, stop_at: int | None = None) -> None:
        self.said: list[str] = []
        self.seen: list[tuple[int, int]] = []
        self._stop_at = stop_at

    def update(self, done: int, total: int) -> None:
        self.seen.append((done, total))
        if self._stop_at is not None and done >= self._stop_at:
            raise PullCancelled

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub(REPOSITORY, dict(FILES), set(LARGE))) as served:
        yield served


@pytest.fixture
def settings(hub: Hub, tmp_path: Path) -> ModelsSettings:
    return ModelsSettings(cache_dir=tmp_path / "cache", hub_url=hub.url, parallel=2)


def pull(settings: ModelsSettings, progress: Lines | None = None, variant: str = "omni") -> tuple[str, ...]:
    return Release(list_release(variant, settings), settings, progress or Lines()).pull()


# -- the listing ---------------------------------------------------------------------------------------------------


def test_the_listing_has_size_licence_revision_and_the_hubs_own_hashes(settings: ModelsSettings, hub: Hub) -> None:
    listing = list_release("omni", settings)
    assert (listing.licence, listing.revision, listing.folder) == ("apache-2.0", hub.revision, "Realtime-Venus-Omni")
    by_path = {file.path: file for file in listing.files}
    assert set(by_path) == WANTED, "code and hidden files stay where they are"
    assert {file.kind for path, file in by_path.items() if f"Realtime-Venus-Omni/{path}" in LARGE} == {"sha256"}
    config = by_path["config.json"]
    assert (config.kind, config.hash) == ("git-sha1", kit.git_sha1(FILES["Realtime-Venus-Omni/config.json"]))
    assert listing.size == sum(len(FILES[f"Realtime-Venus-Omni/{path}"]) for path in WANTED)


def test_a_hub_that_is_not_there_is_an_error_that_says_how_to_bring_the_files(tmp_path: Path) -> None:
    with serving(Hub(REPOSITORY, {})) as gone:
        url = gone.url
    settings = ModelsSettings(cache_dir=tmp_path, hub_url=url)
    with pytest.raises(HubUnreachable) as caught:
        list_release("audio", settings)
    told = str(caught.value)
    for part in (url, "by hand", REPOSITORY, str(tmp_path / FOLDERS["audio"]), "--model", "VENUS_MODELS__HUB_URL"):
        assert part in told


@pytest.mark.parametrize("status", [401, 404, 500])
def test_a_hub_that_refuses_is_said_with_its_answer(settings: ModelsSettings, hub: Hub, status: int) -> None:
    hub.status = status
    with pytest.raises(HubUnreachable, match=f"answered {status}.*by hand"):
        list_release("omni", settings)


@pytest.mark.parametrize("body", [b"<html>Log in</html>", b"[]", b'{"sha": "x"}', b"\xff\xfe", b'{"sha": 1}'])
def test_what_is_no_listing_is_refused(settings: ModelsSettings, hub: Hub, body: bytes) -> None:
    hub.listing = body
    with pytest.raises(StoreError, match="gave no listing"):
        list_release("omni", settings)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/../../b", "a//b", "a\\b", "a\nb", "/etc/passwd"])
def test_a_name_that_leads_out_of_the_folder_is_refused(settings: ModelsSettings, hub: Hub, name: str) -> None:
    hub.files[f"Realtime-Venus-Omni/{name}"] = b"x"
    with pytest.raises(StoreError, match="leads out of its folder"):
        list_release("omni", settings)


def test_a_repository_of_another_layout_or_without_hashes_is_refused(settings: ModelsSettings, hub: Hub) -> None:
    del hub.files["Realtime-Venus-Omni/config.json"]
    with pytest.raises(StoreError, match="layout has changed"):
        list_release("omni", settings)
    answer = {"sha": "a" * 40, "siblings": [{"rfilename": "Realtime-Venus-Omni/config.json"}]}
    hub.listing = json.dumps(answer).encode()
    with pytest.raises(StoreError, match="cannot be verified"):
        list_release("omni", settings)


# -- fetching ------------------------------------------------------------------------------------------------------


def test_all_files_come_verified_and_nothing_else(settings: ModelsSettings, hub: Hub) -> None:
    progress = Lines()
    assert set(pull(settings, progress)) == WANTED
    folder = settings.cache_dir / "Realtime-Venus-Omni"
    there = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert there == {path: FILES[f"Realtime-Venus-Omni/{path}"] for path in WANTED}
    assert not (folder / ".partial").exists()
    assert progress.seen[-1][0] == progress.seen[-1][1]
    assert any("sha256 as the hub says" in line for line in progress.said)
    assert {name for name, _ in hub.asked} == {f"Realtime-Venus-Omni/{path}" for path in WANTED - {"empty.txt"}}


def test_what_is_there_is_not_fetched_again(settings: ModelsSettings, hub: Hub) -> None:
    pull(settings)
    hub.asked.clear()
    assert pull(settings) == ()
    assert hub.asked == []


def test_what_broke_off_goes_on_where_it_was(settings: ModelsSettings, hub: Hub) -> None:
    name = "Realtime-Venus-Omni/model-00001-of-00001.safetensors"
    hub.cut[name] = 300_000
    with pytest.raises(PullFailed, match=r"model-00001-of-00001\.safetensors: .*run it again to go on"):
        pull(settings)
    assert pull(settings) == ("model-00001-of-00001.safetensors",)
    assert [wanted for asked, wanted in hub.asked if asked == name] == [None, "bytes=300000-"]


def test_a_pull_that_is_stopped_keeps_what_it_has(settings: ModelsSettings, hub: Hub) -> None:
    with pytest.raises(PullCancelled):
        pull(settings, Lines(stop_at=1))
    assert set(pull(settings)) <= WANTED
    assert set(Release(list_release("omni", settings), settings, Lines()).lacking()) == set()


def test_other_bytes_than_the_hub_said_are_refused(settings: ModelsSettings, hub: Hub) -> None:
    listing = hub.list()
    name = "Realtime-Venus-Omni/config.json"
    hub.files[name] = FILES[name].replace(b"omni", b"evil")
    hub.listing = listing
    with pytest.raises(PullFailed, match=r"config\.json: expected git-sha1 .*, got"):
        pull(settings)
    assert not (settings.cache_dir / name).exists()


def test_a_file_that_was_damaged_here_is_fetched_again(settings: ModelsSettings, hub: Hub) -> None:
    pull(settings)
    path = settings.cache_dir / "Realtime-Venus-Omni" / "model-00001-of-00001.safetensors"
    path.write_bytes(b"x" + WEIGHTS[1:])
    assert pull(settings) == ("model-00001-of-00001.safetensors",)
    assert path.read_bytes() == WEIGHTS


def test_files_that_were_brought_by_hand_are_taken_over(settings: ModelsSettings, hub: Hub) -> None:
    for path in WANTED:
        target = settings.cache_dir / "Realtime-Venus-Omni" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(FILES[f"Realtime-Venus-Omni/{path}"])
    assert pull(settings) == ()
    assert hub.asked == []


def test_a_newer_revision_brings_what_changed(settings: ModelsSettings, hub: Hub) -> None:
    pull(settings)
    hub.revision = "b" * 40
    hub.files["Realtime-Venus-Omni/config.json"] = b"{}"
    assert pull(settings) == ("config.json",)


def test_a_disk_that_is_too_small_is_told_before_anything_comes(settings: ModelsSettings, hub: Hub) -> None:
    release = Release(list_release("omni", settings), settings, Lines(), free=lambda folder: 1_000_000)
    with pytest.raises(DiskFull, match="VENUS_MODELS__CACHE_DIR"):
        release.pull()
    assert hub.asked == []


# -- what is here --------------------------------------------------------------------------------------------------


def test_the_fetched_checkpoint_is_found_and_one_that_is_named_comes_first(
    settings: ModelsSettings, tmp_path: Path
) -> None:
    assert fetched_folder(settings) is None
    with pytest.raises(EngineError, match="venus models pull omni"):
        checkpoint_folder(None, settings)
    pull(settings, variant="audio")
    assert checkpoint_folder(None, settings).name == "Realtime-Venus-Audio"
    pull(settings)
    assert checkpoint_folder(None, settings).name == "Realtime-Venus-Omni"
    with pytest.raises(EngineError, match="take one of its folders: Realtime-Venus-Audio, Realtime-Venus-Omni"):
        checkpoint_folder(settings.cache_dir, settings)
    with pytest.raises(EngineError, match=r"no config\.json$"):
        checkpoint_folder(tmp_path / "nowhere", settings)


def test_a_checkpoint_that_is_whole_comes_before_one_whose_fetching_was_broken_off(settings: ModelsSettings) -> None:
    pull(settings)
    omni = settings.cache_dir / "Realtime-Venus-Omni"
    (omni / ".partial").mkdir()
    assert fetched_folder(settings) == omni, "better than none: loading says what it lacks"
    pull(settings, variant="audio")
    assert fetched_folder(settings) == settings.cache_dir / "Realtime-Venus-Audio"


def test_the_hash_of_small_files_is_gits(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"hello\n")
    assert git_sha1(tmp_path / "a") == "ce013625030ba8dba906f756967f9e9ca394464a"  # by `git hash-object`
    with pytest.raises(PullCancelled):
        git_sha1(tmp_path / "a", lambda: True)
