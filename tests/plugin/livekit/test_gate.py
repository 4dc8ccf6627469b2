from __future__ import annotations

from livekit import rtc
from realtime_venus.plugin.livekit.gate import FrameTag, SpeakingGate, mark, tag_of


def frame() -> rtc.AudioFrame:
    return rtc.AudioFrame(bytes(960), 24_000, 1, 480)


def test_the_gate_goes_by_the_tag_and_not_by_the_sound() -> None:
    gate, silent = SpeakingGate(), frame()
    mark(silent, FrameTag(3, "u1", speaking=True))
    assert gate.update(silent)
    gate.deactivate()
    assert gate.update(silent)
    last = frame()
    mark(last, FrameTag(4, "u1", speaking=False))
    assert not gate.update(last)


def test_a_frame_of_somebody_else_has_no_tag() -> None:
    assert not SpeakingGate().update(frame())
    assert tag_of(frame()) is None
    foreign = rtc.AudioFrame(bytes(960), 24_000, 1, 480, userdata={"venus": "nonsense"})
    assert tag_of(foreign) is None
