"""The offline voice stack as ordinary LiveKit components: ``AgentSession(stt=STT(), llm=LLM(), tts=TTS(), vad=VAD())``.

Making them costs nothing.  What they need is loaded once a process, when it is first used or by ``prewarm()``, which an
``AgentSession`` calls; see :mod:`.parts`.
"""

from .llm import LLM
from .stt import STT
from .tts import TTS
from .turns import local_turn_handling
from .vad import VAD

__all__ = ["LLM", "STT", "TTS", "VAD", "local_turn_handling"]
