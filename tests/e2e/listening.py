"""What a listener in the browser gets: both voices recorded inside the page, on one clock."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import av
import numpy as np
import soundfile
from av import AudioFrame
from playwright.async_api import Page
from realtime_venus.engines.base import INPUT_HZ, FloatPcm

_REMEMBER_MICROPHONE = """
const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = async (wanted) => (window.testMicrophone = await open(wanted));
"""

_RECORD = """async () => {
  const context = new AudioContext();
  const both = context.createChannelMerger(2);
  context.createMediaStreamSource(window.testMicrophone).connect(both, 0, 0);
  const voice = context.createMediaStreamSource(document.getElementById("voice-out").srcObject);
  voice.connect(both, 0, 1);
  const meter = new AnalyserNode(context, { fftSize: 2048 });
  voice.connect(meter);
  const silent = async (least, longest) => {
    const samples = new Float32Array(meter.fftSize);
    const began = performance.now();
    let last = began;
    while (performance.now() - last < least && performance.now() - began < longest) {
      meter.getFloatTimeDomainData(samples);
      if (samples.some((sample) => Math.abs(sample) > 0.004)) last = performance.now();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  };
  const out = context.createMediaStreamDestination();
  both.connect(out);
  const recorder = new MediaRecorder(out.stream, { mimeType: "audio/webm;codecs=opus", audioBitsPerSecond: 192000 });
  const pieces = [];
  recorder.ondataavailable = ({ data }) => pieces.push(data);
  recorder.start(200);
  window.testRecording = async () => {
    await silent(800, 8000);  // what was sent is not yet played: the browser keeps a buffer, longer on a busy machine
    const stopped = new Promise((resolve) => { recorder.onstop = resolve; });
    recorder.stop();
    await stopped;
    await context.close();
    const reader = new FileReader();
    await new Promise((resolve) => { reader.onload = resolve; reader.readAsDataURL(new Blob(pieces)); });
    return reader.result.split(",")[1];
  };
}"""

_QUIET = 0.004
_BLOCK = INPUT_HZ // 50
"""Activity is judged on blocks of 20 ms."""


async def prepare(page: Page) -> None:
    """Call it before the page is opened."""
    await page.add_init_script(_REMEMBER_MICROPHONE)


async def record(page: Page) -> None:
    """Begin to record; the call must be going on."""
    await page.evaluate(_RECORD)


class _Decoding(Protocol):
    def decode(self, *, audio: int) -> Any: ...


@dataclass(frozen=True, slots=True)
class Recording:
    """Both sides, mono at 16 kHz."""

    user: FloatPcm
    venus: FloatPcm

    @staticmethod
    async def of(page: Page) -> Recording:
        """Stop recording and fetch what was recorded."""
        encoded = cast(str, await page.evaluate("window.testRecording()"))
        resampler = av.AudioResampler(format="fltp", layout="stereo", rate=INPUT_HZ)
        parts: list[FloatPcm] = []
        with av.open(io.BytesIO(base64.b64decode(encoded))) as container:
            for frame in cast(_Decoding, container).decode(audio=0):
                parts += [cast(FloatPcm, one.to_ndarray()) for one in resampler.resample(cast(AudioFrame, frame))]
        both = np.concatenate(parts, axis=1)
        return Recording(user=both[0], venus=both[1])


def stretches(sound: FloatPcm, bridge_s: float = 0.3) -> list[tuple[float, float]]:
    """Where there is sound, as (start, end) in seconds; pauses shorter than ``bridge_s`` are bridged."""
    blocks = sound[: sound.size // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    loud = np.flatnonzero(np.sqrt(np.mean(blocks**2, axis=1)) > _QUIET) * 0.02
    found: list[tuple[float, float]] = []
    for at in loud.tolist():
        if found and at - found[-1][1] <= bridge_s:
            found[-1] = (found[-1][0], at + 0.02)
        else:
            found.append((at, at + 0.02))
    return found


def first_silence(sound: FloatPcm, after_s: float, least_s: float) -> float:
    """When the first silence of at least ``least_s`` begins, not before ``after_s``."""
    for start, end in stretches(sound, least_s):
        if start <= after_s < end:
            return end
    return after_s


def write(path: Path, sound: FloatPcm) -> Path:
    """A WAV as Chromium's fake microphone takes it: 48 kHz mono, 16 bit."""
    soundfile.write(path, np.repeat(sound, 3), 48_000, subtype="PCM_16")
    return path
