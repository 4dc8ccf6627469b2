#!/bin/sh
# Makes .venv and installs a lock into it, then the project itself.   usage: requirements/venv.sh local|livekit|omni|dev
# Says nothing and does nothing when that has been done already.
set -eu
cd "$(dirname "$0")/.."

wanted=$1
[ -f "requirements/$wanted.lock" ] || { echo "no such lock: requirements/$wanted.lock" >&2; exit 2; }

fingerprint() { # of everything the content of .venv depends on
    cat "requirements/$1.lock" pyproject.toml requirements/venv.sh | cksum
}

# Each of these holds everything that those before it hold, at the same versions.
case $wanted in local) larger="livekit omni dev" ;; livekit | omni) larger=dev ;; *) larger= ;; esac
for lock in "$wanted" $larger; do
    if [ "$(cat ".venv/installed-$lock" 2>/dev/null)" = "$(fingerprint "$lock")" ]; then exit 0; fi
done

suitable() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

if [ -d .venv ] && ! suitable .venv/bin/python; then
    echo "The Python of .venv is gone or not 3.11 to 3.13; making it anew." >&2
    rm -rf .venv
fi
if [ ! -d .venv ]; then
    chosen=
    for candidate in "${PYTHON:-python3}" python3.12 python3.11 python3.13; do
        if suitable "$candidate"; then chosen=$candidate; break; fi
    done
    if [ -z "$chosen" ]; then
        found=$("${PYTHON:-python3}" --version 2>/dev/null) || found="not there"
        echo "Realtime-Venus needs Python 3.11, 3.12 or 3.13; '${PYTHON:-python3}' is $found." >&2
        echo "Install one of them and name it:  make PYTHON=/path/to/python3.12 ..." >&2
        exit 1
    fi
    echo "Making .venv with $("$chosen" --version)"
    if ! "$chosen" -m venv .venv; then
        rm -rf .venv
        echo "'$chosen -m venv' failed.  On Debian and Ubuntu it is a package of its own:  sudo apt-get install python3-venv" >&2
        exit 1
    fi
fi

pip() { .venv/bin/python -m pip --disable-pip-version-check --no-input "$@"; }

# First, by pip, what installs and builds the rest: uv, which takes a fifth of the time, and setuptools.
bootstrap=$(mktemp)
trap 'rm -f "$bootstrap"' EXIT
awk '/^[a-z]/ { wanted = /^(setuptools|uv)==/ } wanted' "requirements/$wanted.lock" >"$bootstrap"
pip install --quiet --require-hashes -r "$bootstrap"

echo "Installing requirements/$wanted.lock (some hundred megabytes on the first run)"
# uv does not read pip's configuration.
index=${PIP_INDEX_URL:-$(pip config get global.index-url 2>/dev/null || true)}
if [ -n "$index" ] && [ -z "${UV_DEFAULT_INDEX:-}" ]; then export UV_DEFAULT_INDEX="$index"; fi
quiet=
if [ ! -t 2 ]; then quiet=--quiet; fi
if ! .venv/bin/uv pip install $quiet --python .venv/bin/python \
    --require-hashes --no-build-isolation -r "requirements/$wanted.lock"; then
    echo "That did not work; trying it again with pip." >&2
    pip install --quiet --require-hashes --no-build-isolation --use-pep517 -r "requirements/$wanted.lock"
fi
# Its sources have escapes that Python warns of when it compiles them, which would be in the middle of a conversation.
.venv/bin/python -W ignore -m compileall -q .venv/lib/python*/site-packages/jieba
# Setuptools warns of editable installs in general.
PYTHONWARNINGS=ignore pip install --quiet --no-deps --no-build-isolation -e .
fingerprint "$wanted" >".venv/installed-$wanted"
