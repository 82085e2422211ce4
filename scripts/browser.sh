#!/usr/bin/env bash
# See that there is a Chromium for the browser tests. Never fails: without one those tests are skipped by name.
set -euo pipefail

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then exit 0; fi
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "No Chromium here, and no way to install one without asking: browser tests will be skipped"
    exit 0
fi

echo "Installing Chromium for the browser tests"
log=$(mktemp)
export DEBIAN_FRONTEND=noninteractive
options=(-o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30)
if { apt-get "${options[@]}" update && apt-get "${options[@]}" install -y --no-install-recommends chromium; } \
    >"$log" 2>&1 </dev/null; then
    rm -f "$log"
else
    tail -n 3 "$log"
    echo "Chromium can't be installed: browser tests will be skipped (the whole output is in $log)"
fi
