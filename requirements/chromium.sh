#!/bin/sh
# Sees to it that there is a Chromium for the browser tests.
set -eu
for name in "${CHROMIUM:-chromium}" chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Chromium for the browser tests"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null
    exit 0
fi
echo "The browser tests need Chromium.  On Debian and Ubuntu:  sudo apt-get install chromium" >&2
echo "Elsewhere name one:  CHROMIUM=/path/to/chrome make test      Or leave them out:  make test BROWSER=no" >&2
exit 1
