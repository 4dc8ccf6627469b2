#!/bin/sh
# Sees to it that there is a livekit-server for the tests, and prints its path.  Built once with Go and kept in a cache.
set -eu
version=v1.13.5 # the newest release that `go install` can build
if [ -n "${LIVEKIT_SERVER:-}" ]; then echo "$LIVEKIT_SERVER"; exit 0; fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/realtime-venus/livekit-server
binary=$cache/livekit-server-$version
if [ -x "$binary" ]; then echo "$binary"; exit 0; fi
go=
for candidate in go /usr/local/go/bin/go /usr/lib/go/bin/go; do
    if command -v "$candidate" >/dev/null 2>&1; then go=$candidate; break; fi
done
if [ -z "$go" ]; then
    cat >&2 <<END
The tests in LiveKit rooms need livekit-server $version, which is built with Go 1.26 or newer; there is no Go here.
  Install Go, or name a server that you have:  LIVEKIT_SERVER=/path/to/livekit-server make test
END
    exit 1
fi
echo "Building livekit-server $version (about two minutes, once)" >&2
mkdir -p "$cache"
parts=$(mktemp -d "$cache/build.XXXXXX")
trap 'rm -rf "$parts"' EXIT
GOBIN=$parts "$go" install "github.com/livekit/livekit-server/cmd/server@$version" >&2
mv "$parts/server" "$binary"
echo "$binary"
