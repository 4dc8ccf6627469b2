"""Text to ids and back, as recorded; and tokenizers of other networks."""

from __future__ import annotations

import re
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from realtime_venus.engines.omni.config import CheckpointError, OmniConfig
from realtime_venus.engines.omni.tokens import OPTIONAL, PROTOCOL, Tokens

from ...kit import checkpoints, golden

RECORD = golden.record("tokenizer_cases")


@cache
def tokens() -> Tokens:
    return Tokens.load(golden.model_dir(), OmniConfig.load(golden.model_dir()))


def controls() -> set[int]:
    return set(RECORD["all_special_ids"])


@pytest.mark.parametrize("case", RECORD["cases"], ids=lambda case: case["text"])
def test_texts_become_the_recorded_ids_and_texts(case: dict[str, Any]) -> None:
    assert tokens().encode(case["text"]) == case["ids"]
    assert tokens().decode(case["ids"]) == case["decoded_skip"]
    assert tokens().decode(case["ids"], skip_special=False) == case["decoded"]


def test_ids_are_found_by_name() -> None:
    ids = {PROTOCOL[field]: number for field, number in asdict(tokens().ids).items()}
    for name in ids.keys() & RECORD["ids"].keys():
        assert ids[name] == RECORD["ids"][name], name
    for name, number in RECORD["ids"].items():
        assert tokens().encode(name) == [number]
    assert tokens().ids.im_end == RECORD["stream_decoder_listen_id"]


def test_forbidden_ids_are_the_recorded_ones() -> None:
    assert list(tokens().forbidden) == RECORD["forbidden_token_ids"]
    assert set(RECORD["bad_token_ids"]) <= set(tokens().forbidden)


def test_the_size_is_the_recorded_one() -> None:
    assert tokens().size == RECORD["vocab_size"] == RECORD["len_tokenizer"]


@pytest.mark.parametrize("number", RECORD["all_special_ids"])
def test_words_from_outside_never_become_control_tokens(number: int) -> None:
    name = tokens().decode([number], skip_special=False)
    for text in (name, f"a{name}b", f" {name}\n{name}"):
        assert number in tokens().encode(text)
        assert not controls() & set(tokens().encode_plain(text))


@given(st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "Z", "S"]), max_size=40))
def test_plain_words_come_back(text: str) -> None:
    normal = tokens().decode(tokens().encode_plain(text))
    assert tokens().decode(tokens().encode_plain(normal)) == normal
    assert not controls() & set(tokens().encode_plain(text))


def test_a_spelled_out_name_is_still_readable() -> None:
    assert tokens().decode(tokens().encode_plain("say </delegate> aloud")) == "say </delegate> aloud"


# -- turn-based prompts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", golden.record("chat")["cases"])
def test_prompts_are_framed_as_recorded(name: str) -> None:
    prompt = golden.record("chat")["cases"][name]["prompt"]
    turns = re.findall(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>\n", prompt, re.DOTALL)
    assert len(turns) == golden.record("chat")["cases"][name]["n_messages"]
    messages = [{"role": role, "content": content} for role, content in turns]
    assert tokens().chat(messages, speak=prompt.endswith("<|tts_bos|>")) == prompt


def test_the_framing_of_a_conversation() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    history = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    assert tokens().chat(messages, answer=False) == history
    assert tokens().chat(messages, think=True) == history + "<|im_start|>assistant\n"
    assert tokens().chat(messages) == history + "<|im_start|>assistant\n<think>\n\n</think>\n\n"


# -- wrong tokenizers -----------------------------------------------------------------------------------------------


def load(folder: Path) -> Tokens:
    return Tokens.load(folder, OmniConfig.load(folder))


def renamed(old: str, new: str) -> checkpoints.Change:
    def change(content: dict[str, Any]) -> None:
        for token in content["added_tokens"]:
            if token["content"] == old:
                token["content"] = new
        vocabulary: dict[str, int] = content["model"]["vocab"]
        if old in vocabulary:
            vocabulary[new] = vocabulary.pop(old)

    return change


@pytest.mark.parametrize("field", [field for field in PROTOCOL if field not in OPTIONAL])
def test_a_missing_name_of_the_protocol_is_named(tmp_path: Path, field: str) -> None:
    folder = checkpoints.copy(tmp_path, weights={})
    checkpoints.edit(folder / "tokenizer.json", renamed(PROTOCOL[field], "<other>"))
    with pytest.raises(CheckpointError, match=re.escape(PROTOCOL[field])):
        load(folder)


def test_tokens_of_tools_may_be_missing(tmp_path: Path) -> None:
    folder = checkpoints.copy(tmp_path, weights={})
    for index, field in enumerate(OPTIONAL):
        checkpoints.edit(folder / "tokenizer.json", renamed(PROTOCOL[field], f"<other{index}>"))
    ids = load(folder).ids
    assert (ids.delegate, ids.delegate_end, ids.backend, ids.backend_end) == (None, None, None, None)


def test_a_name_that_stands_twice_is_named(tmp_path: Path) -> None:
    folder = checkpoints.copy(tmp_path, weights={})
    checkpoints.edit(
        folder / "tokenizer.json",
        lambda content: content["added_tokens"].append({**content["added_tokens"][-1], "content": "<|listen|>"}),
    )
    with pytest.raises(CheckpointError, match=r"<\|listen\|> 2 times"):
        load(folder)


def test_an_id_that_stands_for_two_names_is_named(tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        (speak,) = (each for each in content["added_tokens"] if each["content"] == "<|speak|>")
        content["added_tokens"].append({**speak, "content": "<twin>"})

    folder = checkpoints.copy(tmp_path, weights={})
    checkpoints.edit(folder / "tokenizer.json", change)
    with pytest.raises(CheckpointError, match=r"<\|speak\|> to another|not a tokenizer"):
        load(folder)


def test_more_ids_than_embeddings(tmp_path: Path) -> None:
    folder = checkpoints.copy(tmp_path, weights={}, config=lambda config: config.update(vocab_size=tokens().size - 1))
    with pytest.raises(CheckpointError, match="tokenizer of another checkpoint"):
        load(folder)


@pytest.mark.parametrize("bad", [[10**6], [-1], "1", ["1"], [True]], ids=str)
def test_forbidden_ids_that_make_no_sense(tmp_path: Path, bad: object) -> None:
    folder = checkpoints.copy(tmp_path, weights={})
    checkpoints.edit(folder / "tokenizer_config.json", lambda content: content.update(bad_token_ids=bad))
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json"):
        load(folder)


DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
SHALLOWER = b'{"bad_token_ids": ' + b"[" * 500 + b"]" * 500 + b"}"
"""Not too deep for the first reader of such a file."""


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [None, b"", b"[]", b"\xff\xfe", b"{", DEEP, SHALLOWER], ids=range(7))
def test_a_file_that_is_missing_or_broken_is_named(tmp_path: Path, name: str, content: bytes | None) -> None:
    folder = checkpoints.copy(tmp_path, weights={})
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=re.escape(name)):
        load(folder)


def test_a_tokenizer_of_another_kind_is_refused(tmp_path: Path) -> None:
    folder = checkpoints.copy(tmp_path, weights={})
    checkpoints.edit(folder / "tokenizer.json", lambda content: content["model"].update(type="Unheard"))
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        load(folder)
