"""What an ``AgentSession`` and its room have to be told so that a full-duplex model is not spoilt by defaults."""

from __future__ import annotations

from typing import Any, TypedDict, cast

from livekit.agents import AgentSession, TurnHandlingOptions, llm
from livekit.agents.voice.room_io import (
    AudioInputOptions,
    AudioOutputOptions,
    RoomOptions,
    TextInputEvent,
    TextInputOptions,
)

from ...engines.base import INPUT_HZ, OUTPUT_HZ
from .session import DuplexSession

FRAME_MS = 20


class SessionKeywords(TypedDict):
    """Keyword arguments of ``AgentSession``."""

    vad: None
    turn_handling: TurnHandlingOptions
    aec_warmup_duration: None
    user_away_timeout: None
    video_sampler: None


def session_options() -> SessionKeywords:
    """``AgentSession(llm=venus.DuplexModel(), **venus.session_options())``.

    - No warm-up of an echo canceller: by default the model is given silence for the first 3 s in which it speaks.
    - No VAD and no turn detector: the model decides, and the defaults load some 150 MB for nothing.
    - Nobody is ``away`` because nobody spoke for 15 s.
    - Every frame of the camera is passed on instead of one in one to three seconds; the session keeps the newest.
    """
    return SessionKeywords(
        vad=None,
        turn_handling=TurnHandlingOptions(
            turn_detection="realtime_llm",
            interruption={"discard_audio_if_uninterruptible": False, "resume_false_interruption": False},
            preemptive_generation={"enabled": False},
        ),
        aec_warmup_duration=None,
        user_away_timeout=None,
        video_sampler=None,
    )


def room_options(*, video: bool = True) -> RoomOptions:
    """``await session.start(agent, room=ctx.room, room_options=venus.room_options())``.

    Audio as the model takes and gives it (16 kHz in frames of 20 ms, 24 kHz back), without automatic gain, which would
    raise the echo of the agent in the user's pauses; the user's camera and screen; typed text is appended, and the
    model decides what becomes of what it was saying.
    """
    return RoomOptions(
        audio_input=AudioInputOptions(
            sample_rate=INPUT_HZ, num_channels=1, frame_size_ms=FRAME_MS, auto_gain_control=False
        ),
        audio_output=AudioOutputOptions(sample_rate=OUTPUT_HZ, num_channels=1),
        video_input=video,
        text_input=TextInputOptions(text_input_cb=append_text),
    )


def append_text(session: AgentSession[Any], event: TextInputEvent) -> None:
    """Give the model what was typed, without interrupting it.

    Raises ``RealtimeError`` when the session runs on another model.
    """
    duplex = duplex_session(session)
    if duplex is None:
        raise llm.RealtimeError("the agent does not run on venus.DuplexModel")
    duplex.type_text(event.text)


def duplex_session(session: AgentSession[Any]) -> DuplexSession | None:
    """Our session inside ``session``, or ``None`` while there is none."""
    try:
        found = cast(object, session.current_agent.duplex_session)  # pyright: ignore[reportUnknownMemberType]  # generic
    except RuntimeError:
        return None
    return found if isinstance(found, DuplexSession) else None
