from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.base import Capabilities, Language
from realtime_venus.plugin.worker.metadata import MAX_BYTES, BadMetadata, JobMetadata, parse, session_options

from ...kit.fake_engine import FakeEngine

SECRET = "nobody may read this in a log"


def test_nothing_means_the_defaults() -> None:
    for text in ("", "  \n", "{}"):
        assert parse(text) == JobMetadata()
    options = session_options(JobMetadata(), FakeEngine())
    assert (options.language, options.voice, options.persona, options.facts) == (None, None, None, ())


def test_everything_reaches_the_session() -> None:
    said = {
        "language": "zh",
        "voice": "tenor",
        "persona": " A patient clerk. ",
        "facts": ["Open from 9.", "Shut at 5."],
    }
    options = session_options(parse(json.dumps(said)), FakeEngine())
    assert (options.language, options.voice) == (Language.ZH, "tenor")
    assert (options.persona, options.facts) == ("A patient clerk.", ("Open from 9.", "Shut at 5."))
    assert not options.fast


def test_auto_follows_the_user() -> None:
    options = session_options(parse('{"language": "auto", "voice": "auto"}'), FakeEngine())
    assert (options.language, options.voice) == (None, None)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (SECRET, "not JSON"),
        ("[1]", "not a JSON object"),
        ('"en"', "not a JSON object"),
        ("[" * 100_000, "longer than"),
        ("[" * 60_000, "not JSON"),
        ('{"a":' * 12_000 + "1" + "}" * 4_000, "not JSON"),
        ("9" * 60_000, "not JSON"),
        (json.dumps({"persona": "x" * MAX_BYTES}), "longer than"),
        (json.dumps({"persona": "é" * (MAX_BYTES // 2)}, ensure_ascii=False), "longer than"),
        (json.dumps({"persona": "x" * 4001}), "persona: .*4000"),
        (json.dumps({"persona": ""}), "persona"),
        (json.dumps({"persona": 7}), "persona"),
        ('{"persona": "\\ud800"}', "persona"),
        (json.dumps({"language": "fr"}), "language"),
        (json.dumps({"language": ["en"]}), "language"),
        (json.dumps({"voice": {"name": "alto"}}), "voice"),
        (json.dumps({"voice": "x" * 65}), "voice"),
        (json.dumps({"facts": "one"}), "facts"),
        (json.dumps({"facts": [1]}), "facts.0"),
        (json.dumps({"facts": ["  "]}), "facts.0"),
        (json.dumps({"facts": ["x"] * 201}), "facts"),
        (json.dumps({SECRET: 1}), "only language, voice, persona, facts are known"),
        (json.dumps({"fast": True}), "only language"),
        (json.dumps({"system_prompt": SECRET}), "only language"),
    ],
)
def test_hostile_metadata_gets_a_clear_error_without_its_content(text: str, complaint: str) -> None:
    with pytest.raises(BadMetadata, match=complaint) as caught:
        parse(text)
    assert SECRET not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"voice": "nobody"}, "no voice of the name"),
        ({"language": "zh"}, "does not speak"),
        ({"persona": "A clerk."}, "takes no persona"),
        ({"facts": ["Open from 9."]}, "takes no facts"),
    ],
)
def test_what_the_engine_cannot_do_is_refused(said: dict[str, object], complaint: str) -> None:
    engine = FakeEngine(capabilities=Capabilities())
    engine.languages = (Language.EN,)
    with pytest.raises(BadMetadata, match=complaint):
        session_options(parse(json.dumps(said)), engine)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(("language", "voice", "persona", "facts"))


@given(st.text() | json_values.map(json.dumps) | st.dictionaries(names, json_values).map(json.dumps))
def test_whatever_comes_there_are_options_or_a_clear_error(text: str) -> None:
    options = None
    with suppress(BadMetadata):
        options = session_options(parse(text), FakeEngine())
    assert options is None or options.voice in (None, "alto", "tenor")
