from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from realtime_venus.plugin.timeline import Recorder, Timeline, delete_recording, read_recording, recordings
from realtime_venus.plugin.timeline.events import AgentState, UserSpeech

STATES = [AgentState(at_ms=0, state="listening"), UserSpeech(at_ms=40, phase="started")]


def record(folder: Path) -> Recorder:
    recorder, timeline = Recorder(folder), Timeline()
    for event in STATES:
        recorder.event(timeline.append(event))
    recorder.user_audio(np.full(320, 0.5, np.float32), 0)
    recorder.user_audio(np.full(320, -0.5, np.float32), 640)
    recorder.agent_audio(np.full(480, 9, np.int16), 0)
    return recorder


def test_a_session_is_read_back(tmp_path: Path) -> None:
    recorder = record(tmp_path / "one")
    recorder.close()
    recorder.close()
    found = read_recording(tmp_path / "one")
    assert [entry.event for entry in found.entries] == STATES
    assert not found.cut
    assert len(found.user) == 960
    assert found.user[0] == 16384
    assert not found.user[320:640].any()
    assert found.user[640] == -16384
    assert found.agent.tolist() == [9] * 480


def test_other_programs_can_play_it(tmp_path: Path) -> None:
    record(tmp_path).close()
    info = soundfile.info(str(tmp_path / "agent.wav"))
    assert (info.samplerate, info.channels, info.frames) == (24000, 1, 480)


def test_pauses_in_pulling_are_filled_but_jitter_is_not(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.agent_audio(np.ones(480, np.int16), 0)
    recorder.agent_audio(np.ones(480, np.int16), 31)  # late by 11 ms: no seam
    recorder.agent_audio(np.ones(480, np.int16), 1000)
    recorder.close()
    agent = read_recording(tmp_path).agent
    assert len(agent) == 24480
    assert agent[:960].all()
    assert not agent[960:24000].any()


def test_a_folder_is_recorded_into_once(tmp_path: Path) -> None:
    record(tmp_path).close()
    with pytest.raises(FileExistsError):
        Recorder(tmp_path)


def test_a_killed_process_loses_no_event(tmp_path: Path) -> None:
    script = (
        "import os, sys, signal, numpy as np\n"
        "from pathlib import Path\n"
        "from realtime_venus.plugin.timeline import Recorder, Timeline\n"
        "from realtime_venus.plugin.timeline.events import AgentState\n"
        "recorder, timeline = Recorder(Path(sys.argv[1])), Timeline()\n"
        "for n in range(150):\n"
        "    recorder.event(timeline.append(AgentState(at_ms=n * 20, state='listening')))\n"
        "    recorder.user_audio(np.full(320, 0.5, np.float32), n * 320)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False, timeout=60)
    assert done.returncode < 0
    found = read_recording(tmp_path)
    assert len(found.entries) == 150
    assert len(found.user) >= 150 * 320 - 24000 - 320
    assert soundfile.info(str(tmp_path / "user.wav")).frames > 0


def test_a_torn_last_line_is_left_out_and_said(tmp_path: Path) -> None:
    record(tmp_path).close()
    with (tmp_path / "timeline.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"type":"agent.st')
    found = read_recording(tmp_path)
    assert found.cut
    assert len(found.entries) == 2


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    record(tmp_path).close()
    path = tmp_path / "timeline.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace("listening", 'x","y":"'), encoding="utf-8")
    with pytest.raises(ValueError, match="line 1"):
        read_recording(tmp_path)


def test_audio_of_another_kind_is_refused(tmp_path: Path) -> None:
    record(tmp_path).close()
    (tmp_path / "user.wav").write_bytes(b"RIFF")
    with pytest.raises(ValueError, match="too short"):
        read_recording(tmp_path)
    soundfile.write(tmp_path / "user.wav", np.zeros((9, 2)), 16000)
    with pytest.raises(ValueError, match="mono"):
        read_recording(tmp_path)


def test_what_is_no_number_becomes_silence(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.user_audio(np.array([np.nan, np.inf, 7.0, -7.0], np.float32), 0)
    recorder.close()
    assert read_recording(tmp_path).user.tolist() == [0, 32767, 32767, -32767]


def test_recordings_are_found_and_deleted(tmp_path: Path) -> None:
    assert recordings(tmp_path / "nowhere") == ()
    for name in ("b", "a"):
        record(tmp_path / name).close()
    (tmp_path / "other").mkdir()
    assert [path.name for path in recordings(tmp_path)] == ["a", "b"]
    delete_recording(tmp_path / "a")
    assert [path.name for path in recordings(tmp_path)] == ["b"]
    with pytest.raises(FileNotFoundError, match="no recording"):
        delete_recording(tmp_path / "other")
    assert (tmp_path / "other").is_dir()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_an_oserror(tmp_path: Path) -> None:
    (tmp_path / "user.wav").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        Recorder(tmp_path)
