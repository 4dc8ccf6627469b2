#!/bin/sh
# Makes .venv-peers, in which benchmarks/beside.py runs the peers: requirements/peers.lock, and nothing of ours.
# Says nothing and does nothing when that has been done already.  Needs .venv (requirements/venv.sh dev).
set -eu
cd "$(dirname "$0")/.."

fingerprint() { cat requirements/peers.lock requirements/peers.sh | cksum; }
if [ "$(cat .venv-peers/installed 2>/dev/null)" = "$(fingerprint)" ]; then exit 0; fi

# uv does not read pip's configuration.
index=${PIP_INDEX_URL:-$(.venv/bin/python -m pip config get global.index-url 2>/dev/null || true)}
if [ -n "$index" ] && [ -z "${UV_DEFAULT_INDEX:-}" ]; then export UV_DEFAULT_INDEX="$index"; fi
[ -x .venv-peers/bin/python ] || .venv/bin/uv venv --quiet --python .venv/bin/python .venv-peers

peers() { .venv/bin/uv pip install --quiet --python .venv-peers/bin/python --require-hashes "$@"; }
# What builds the packages that have no wheels comes first.
bootstrap=$(mktemp)
trap 'rm -f "$bootstrap"' EXIT
awk '/^[a-z]/ { wanted = /^setuptools==/ } wanted' requirements/peers.lock >"$bootstrap"
peers -r "$bootstrap"
peers --no-build-isolation -r requirements/peers.lock
# Compiled now, so that no warning about its escapes and no compiling falls into a conversation.
.venv-peers/bin/python -W ignore -m compileall -q .venv-peers/lib/python*/site-packages/jieba
fingerprint >.venv-peers/installed
