#!/bin/sh
# Makes the locks anew from pyproject.toml: names, versions and hashes for Python 3.11 to 3.13, and nothing else.
# Versions already locked stay; `requirements/lock.sh --upgrade` takes the newest.
set -eu
cd "$(dirname "$0")/.."
compile() {
    .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-header "$@" pyproject.toml requirements/build.in
}
compile --extra local -o requirements/local.lock "$@"
compile --extra local --extra livekit -c requirements/local.lock -o requirements/livekit.lock "$@"
compile --extra local --extra omni -c requirements/local.lock -o requirements/omni.lock "$@"
compile --extra local --extra livekit --extra omni --extra dev -c requirements/local.lock -o requirements/dev.lock "$@"
# Of the peers, on their own: the versions already locked stay here too.
.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
    -o requirements/peers.lock "$@" requirements/peers.in
