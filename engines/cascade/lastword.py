"""Whether the words so far sound as if more will follow, to tell a pause from the end of a turn.

The sound of a pause and the recogniser's punctuation mislead: Whisper ends a half sentence with a full stop or a
question mark.  The words themselves mislead less: after ``the``, ``if I take the bus`` or ``我想买一个`` people go on,
and after ``I have a question about my order`` most do.  The rules are word lists and a little grammar, no model.
"""

from __future__ import annotations

from typing import Final

from ..base import Language
from .lastword_en import english_completeness
from .lastword_zh import chinese_completeness

HANGS_BELOW: Final = 0.25


def completeness(text: str, language: Language) -> float:
    """How complete the turn ``text`` (a partial transcript) is, in [0, 1].

    About: 1 a whole question or request, 0.8 a short answer, 0.6 a statement, 0.4 a statement that announces more
    (a problem, a plan, a story), 0.1 a sentence broken off, 0 nothing at all.
    """
    return chinese_completeness(text) if language is Language.ZH else english_completeness(text)


def hangs(text: str, language: Language) -> bool:
    """Whether ``text`` breaks off where nobody ends a turn."""
    return completeness(text, language) < HANGS_BELOW
