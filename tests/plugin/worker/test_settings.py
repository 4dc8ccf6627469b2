from __future__ import annotations

import pytest
from pydantic import ValidationError
from realtime_venus.plugin.settings import BadSetting, load_settings
from realtime_venus.plugin.worker.settings import MissingCredentials, WorkerSettings

VARIABLES = ("LIVEKIT_URL", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET", "LIVEKIT_AGENT_NAME")
SECRET = "a secret that is never shown"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_what_is_missing_is_named_with_where_to_set_it() -> None:
    with pytest.raises(MissingCredentials) as caught:
        WorkerSettings().checked()
    for name in (*VARIABLES[:3], "VENUS_WORKER__URL", "VENUS_WORKER__API_KEY", "VENUS_WORKER__API_SECRET"):
        assert name in str(caught.value)
    with pytest.raises(MissingCredentials) as caught:
        WorkerSettings.model_validate({"url": "ws://here", "api_key": "key"}).checked()
    assert "LIVEKIT_API_SECRET" in str(caught.value)
    assert "LIVEKIT_API_KEY" not in str(caught.value)


def test_livekits_own_variables_are_taken_where_the_section_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip(VARIABLES, ("wss://there", "key", SECRET, "clerk"), strict=True):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("VENUS_WORKER__AGENT_NAME", "ours")
    settings = load_settings({"worker": WorkerSettings}).section(WorkerSettings).checked()
    assert (settings.url, settings.key, settings.secret, settings.agent_name) == ("wss://there", "key", SECRET, "ours")


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVEKIT_API_SECRET", "")
    assert WorkerSettings().api_secret is None


def test_the_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = WorkerSettings.model_validate({"api_key": "key", "api_secret": SECRET})
    assert SECRET not in repr(settings)
    assert SECRET not in settings.model_dump_json()
    monkeypatch.setenv("LIVEKIT_URL", f"ftp://{SECRET}")
    with pytest.raises(BadSetting) as caught:
        load_settings({"worker": WorkerSettings})
    assert SECRET not in str(caught.value)


def test_beyond_this_machine_tokens_are_given_for_a_secret_only() -> None:
    with pytest.raises(ValidationError, match="VENUS_WORKER__TOKEN_SECRET"):
        WorkerSettings.model_validate({"token_endpoint": True, "host": "0.0.0.0"})
    assert WorkerSettings.model_validate({"token_endpoint": True}).token_secret is None
    guarded = {"token_endpoint": True, "host": "0.0.0.0", "token_secret": SECRET}
    assert SECRET not in repr(WorkerSettings.model_validate(guarded))
    with pytest.raises(ValidationError, match="token_secret"):
        WorkerSettings.model_validate({"token_secret": "short"})


@pytest.mark.parametrize("worker", ["10.0.0.2:8081", "ws://10.0.0.2", "http://"])
def test_a_worker_that_is_no_address_is_refused(worker: str) -> None:
    with pytest.raises(ValidationError, match=r"looks like http://10\.0\.0\.2:8081"):
        WorkerSettings.model_validate({"token_workers": [worker]})


@pytest.mark.parametrize("url", ["livekit.example.org", "ftp://x", "ws://", "ws://[", "//x", "ws:x"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="begins with ws://"):
        WorkerSettings.model_validate({"url": url})


@pytest.mark.parametrize("url", ["ws://127.0.0.1:7880", "wss://x.livekit.cloud", "http://x", "https://x/base"])
def test_an_address_is_taken(url: str) -> None:
    assert WorkerSettings.model_validate({"url": url}).url == url
