"""Settings: where they come from, which one wins, and what is refused."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from realtime_venus.plugin import settings as module
from realtime_venus.plugin.settings import BadSetting, load_sections, load_settings


class Deep(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    cap_ms: int = Field(default=1500, ge=100)
    again_ms: int = 200


class Server(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: int = 7860
    key: SecretStr | None = None
    names: tuple[str, ...] = ()
    deep: Deep = Deep()
    other: Deep | None = None
    many: tuple[Deep, ...] = Field(default=(), examples=[[{"cap_ms": 300}]])
    table: dict[str, int] = {}


class Voice(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "hibari"


class Unrelated(BaseModel):
    pass


SECTIONS: dict[str, type[BaseModel]] = {"room": Server, "voice": Voice}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def room() -> Server:
    return load_settings(SECTIONS).section(Server)


def refused() -> str:
    with pytest.raises(BadSetting) as refusal:
        load_settings(SECTIONS)
    return str(refusal.value)


def test_without_anything_set_all_is_default() -> None:
    settings = load_settings(SECTIONS)
    assert settings.section(Server) == Server()
    assert settings.section(Voice) == Voice()
    assert settings.model_dump()["voice"] == {"name": "hibari"}


def test_the_environment_wins_over_the_file_and_the_file_over_the_defaults(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "venus.toml").write_text(
        '[room]\nport = 1\nhost = "0.0.0.0"\nnames = ["a"]\n'
        "[room.deep]\ncap_ms = 300\nagain_ms = 5\n[room.table]\nx = 1\n"
    )
    monkeypatch.setenv("VENUS_ROOM__PORT", "2")
    monkeypatch.setenv("VENUS_ROOM__DEEP__CAP_MS", "400")
    found = room()
    assert (found.port, found.host, found.names) == (2, "0.0.0.0", ("a",))
    assert found.deep == Deep(cap_ms=400, again_ms=5)
    assert found.table == {"x": 1}


def test_variables_are_read_whatever_their_case_and_lists_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("venus_room__names", '["one", "two"]')
    monkeypatch.setenv("VENUS_ROOM__OTHER__CAP_MS", "200")
    monkeypatch.setenv("VENUS_ROOM__MANY", '[{"cap_ms": 150}]')
    found = room()
    assert found.names == ("one", "two")
    assert found.other == Deep(cap_ms=200)
    assert found.many == (Deep(cap_ms=150),)


def test_the_file_may_lie_where_venus_config_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "venus.toml").write_text("[room]\nport = 1\n")
    (folder / "mine.toml").write_text("[room]\nport = 9\n")
    monkeypatch.setenv("VENUS_CONFIG", "mine.toml")
    assert room().port == 9


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("VENUS_ROOM__PROT", "VENUS_ROOM__PORT"),
        ("VENUS_ROOM_PORT", "VENUS_ROOM__PORT"),
        ("VENUS_PORT", "VENUS_ROOM__PORT"),
        ("VENUS_ROM__PORT", "VENUS_ROOM__PORT"),
        ("VENUS_ROOM__DEEP__CAPMS", "VENUS_ROOM__DEEP__CAP_MS"),
        ("VENUS_ROOM__DEEP_CAP_MS", "VENUS_ROOM__DEEP__CAP_MS"),
        ("venus_room__hots", "VENUS_ROOM__HOST"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, variable: str, meant: str
) -> None:
    monkeypatch.setenv(variable, "1")
    assert refused() == f"unknown setting {variable} in the environment; did you mean {meant}?"


def test_an_unknown_variable_that_is_near_nothing_is_refused_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUS_XQZW", "1")
    assert refused() == "unknown setting VENUS_XQZW in the environment"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[room]\nprot = 1\n", "unknown setting room.prot in venus.toml; did you mean room.port?"),
        ("[rooom]\nport = 1\n", "unknown setting rooom in venus.toml; did you mean room?"),
        ("port = 1\n", "unknown setting port in venus.toml; did you mean room.port?"),
        ("[room.deep]\ncap = 1\n", "unknown setting room.deep.cap in venus.toml; did you mean room.deep.cap_ms?"),
        ("[voice.name]\nx = 1\n", "voice.name in venus.toml: Input should be a valid string"),
        ("room = 5\n", "room in venus.toml: Input should be a valid dictionary or instance of Server"),
        ("[room.deep]\ncap_ms = 1\n", "room.deep.cap_ms in venus.toml: Input should be greater than or equal to 100"),
    ],
)
def test_what_the_file_may_not_say(folder: Path, text: str, message: str) -> None:
    (folder / "venus.toml").write_text(text)
    assert refused() == message


def test_a_broken_file_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "venus.toml"
    file.write_text("[room\n")
    assert refused().startswith("venus.toml is no TOML: ")
    file.write_bytes(b"\xff\xfe\x00")
    assert refused().startswith("venus.toml cannot be read: ")
    file.unlink()
    file.mkdir()
    assert refused().startswith("venus.toml cannot be read: ")
    monkeypatch.setenv("VENUS_CONFIG", "nowhere.toml")
    assert refused() == "VENUS_CONFIG names nowhere.toml, which does not exist"


def test_an_impossible_value_names_the_variable_and_never_shows_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUS_ROOM__PORT", "s3cret")
    message = refused()
    assert message.startswith("VENUS_ROOM__PORT: Input should be a valid integer")
    assert "s3cret" not in message


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("VENUS_ROOM__DEEP", '{"capms": 150}', "unknown setting room.deep.capms; did you mean cap_ms?"),
        ("VENUS_ROOM__MANY", '[{}, {"agains_ms": 1}]', "unknown setting room.many.1.agains_ms; did you mean again_ms?"),
        ("VENUS_ROOM", '{"prot": 1}', "unknown setting room.prot; did you mean port?"),
        ("VENUS_ROOM__DEEP", '{"xqzw": 150}', "unknown setting room.deep.xqzw"),
    ],
)
def test_an_unknown_key_inside_json_is_refused_with_the_nearest(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert refused() == f"{variable}: {message}"


def test_an_unknown_key_of_an_entry_in_the_file_is_refused_with_the_nearest(folder: Path) -> None:
    (folder / "venus.toml").write_text("[[room.many]]\ncap = 150\n")
    assert refused() == "room.many.0.cap in venus.toml: unknown setting room.many.0.cap; did you mean cap_ms?"


def test_what_should_be_json_and_is_not_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUS_ROOM__PORT", "5")
    monkeypatch.setenv("VENUS_ROOM__NAMES", "one, two")
    assert refused().startswith("VENUS_ROOM__NAMES must be JSON, for example")


def test_what_has_an_example_of_its_own_is_shown_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENUS_ROOM__MANY", "300")
    assert refused().startswith("VENUS_ROOM__MANY: Input should be a valid tuple")
    monkeypatch.setenv("VENUS_ROOM__MANY", "cap_ms:300")
    assert refused() == """VENUS_ROOM__MANY must be JSON, for example '[{"cap_ms": 300}]'"""


def test_a_section_that_is_not_there_is_named() -> None:
    with pytest.raises(BadSetting, match="no settings section is a Unrelated; sections: room, voice"):
        load_settings(SECTIONS).section(Unrelated)


# -- registered sections --------------------------------------------------------------------------------------------


def register(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    made_up = ModuleType("made_up_sections")
    made_up.__dict__["Voice"] = Voice
    made_up.__dict__["number"] = 5
    monkeypatch.setitem(sys.modules, "made_up_sections", made_up)
    entry = metadata.EntryPoint("voice", value, module.GROUP)

    def entries(group: str) -> metadata.EntryPoints:
        return metadata.EntryPoints([entry]).select(group=group)

    monkeypatch.setattr(metadata, "entry_points", entries)


def test_sections_come_from_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch, "made_up_sections:Voice")
    assert load_sections() == {"voice": Voice}
    monkeypatch.setenv("VENUS_VOICE__NAME", "kokoro")
    assert load_settings().section(Voice).name == "kokoro"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nobody_has_this.settings:X", "cannot be loaded: No module named 'nobody_has_this'"),
        ("made_up_sections:Missing", "cannot be loaded: .*Missing"),
        ("made_up_sections:number", "is no pydantic model"),
    ],
)
def test_a_section_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch, value: str, message: str) -> None:
    register(monkeypatch, value)
    with pytest.raises(BadSetting, match=f"the settings section voice .*{message}"):
        load_sections()
