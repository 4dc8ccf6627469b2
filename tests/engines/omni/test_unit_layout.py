"""How many positions of the context a unit takes, from the sizes of the network alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from realtime_venus.engines.base import RgbImage
from realtime_venus.engines.omni.audio import UNIT_STATES
from realtime_venus.engines.omni.behaviour import Behaviour
from realtime_venus.engines.omni.images import slice_image

from tests.kit import golden
from tests.kit.omni_replay import model
from tests.kit.omni_script import DEMO, HUB, VENUS, generate, listening, second, session

UNIT = 1 + 1
"""``<unit>`` and ``</unit>``."""
DECISION = 1
"""``<|listen|>``."""
MOST = 9


@pytest.fixture(autouse=True)
def _inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


def heard() -> int:
    """Positions of a second of audio: the encoder's states, pooled, without any mark around them."""
    return UNIT_STATES // model().config.audio_pool_step


def shown(count: int = 1) -> int:
    """Positions of a picture and its slices: each the resampler's queries between two marks."""
    return count * (model().config.query_num + 2)


def pieces(picture: RgbImage, most: int) -> int:
    """What a picture becomes: itself, and its slices."""
    return len(slice_image(picture, model().config.slices, most).patches)


class Counted:
    """A session that listens."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._made = session(behaviour)

    def __call__(self, number: int, *pictures: RgbImage, audio: bool = True, most: int = 1) -> int:
        """Positions that a unit of those inputs adds, as the cache and as the table of units count them."""
        made = self._made
        before, ended = made.length, made.units.end
        made.prefill(second(number) if audio else None, pictures, max_slices=most)
        assert generate(made, listening()).end.is_listen
        # The reference codes feed the end at once, ours with the next unit.
        made.finalise()
        made.settle()
        assert made.units.end - ended == made.units[-1].length == made.length - before
        return made.length - before


@pytest.fixture(params=[VENUS, HUB, DEMO])
def length(request: pytest.FixtureRequest) -> Counted:
    return Counted(request.param)


def test_audio_alone(length: Counted) -> None:
    assert [length(number) for number in range(3)] == [UNIT + heard() + DECISION] * 3


def test_audio_and_a_picture(length: Counted) -> None:
    golden.needs_eyes()
    for number, name in enumerate(golden.pictures()):
        assert length(number, golden.image(name)) == UNIT + shown() + heard() + DECISION


def test_a_picture_alone(length: Counted) -> None:
    golden.needs_eyes()
    picture = golden.image(golden.pictures()[0])
    assert length(0, picture, audio=False) == UNIT + shown() + DECISION


@pytest.mark.parametrize("most", [2, MOST])
def test_audio_and_a_picture_in_slices(length: Counted, most: int) -> None:
    golden.needs_eyes()
    pictures = [golden.image(name) for name in golden.pictures()]
    assert max(pieces(picture, most) for picture in pictures) > 1
    for number, picture in enumerate(pictures):
        expected = UNIT + shown(pieces(picture, most)) + heard() + DECISION
        assert length(number, picture, most=most) == expected


def test_several_pictures(length: Counted) -> None:
    golden.needs_eyes()
    pictures = [golden.image(name) for name in golden.pictures()[:2]]
    assert length(0, *pictures) == UNIT + len(pictures) * shown() + heard() + DECISION
