#!/bin/sh
# Sees to it that there is a Chromium for the browser tests and the benchmark.
set -eu
for name in "${CHROMIUM:-chromium}" chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
# Only root may install it; everybody else is told what to do.
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Chromium for the browser tests"
    export DEBIAN_FRONTEND=noninteractive
    if apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; then exit 0; fi
    echo "apt-get could not install Chromium." >&2
fi
cat >&2 <<'END'
The browser tests and the benchmark need Chromium, which only root can install.
  On Debian and Ubuntu:  sudo apt-get install chromium
  Elsewhere, or without root, name a Chromium or Chrome that you have:  CHROMIUM=/path/to/chrome make test
  Or leave the browser tests out:  make test BROWSER=no
END
exit 1
