#!/bin/sh
# Makes .venv and installs a lock into it, then the project itself.   usage: requirements/venv.sh local|dev
# Says nothing and does nothing when that has been done already.
set -eu
cd "$(dirname "$0")/.."

wanted=$1
[ -f "requirements/$wanted.lock" ] || { echo "no such lock: requirements/$wanted.lock" >&2; exit 2; }

fingerprint() { # of everything the content of .venv depends on
    cat "requirements/$1.lock" pyproject.toml requirements/venv.sh | cksum
}

# dev.lock holds everything that local.lock holds, at the same versions.
for lock in "$wanted" dev; do
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
        echo "Realtime-Venus needs Python 3.11, 3.12 or 3.13; '${PYTHON:-python3}' is $("${PYTHON:-python3}" --version 2>&1 || true)." >&2
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

# What has no wheel is built with the locked setuptools, not with whatever is newest.
build_lock=$(mktemp)
trap 'rm -f "$build_lock"' EXIT
awk '/^[a-z]/ { wanted = /^setuptools==/ } wanted' "requirements/$wanted.lock" >"$build_lock"
pip install --quiet --require-hashes -r "$build_lock"
echo "Installing requirements/$wanted.lock (some hundred megabytes on the first run)"
pip install --quiet --progress-bar on --require-hashes --no-build-isolation --use-pep517 -r "requirements/$wanted.lock"
pip install --quiet --no-deps --no-build-isolation -e .
fingerprint "$wanted" >".venv/installed-$wanted"
