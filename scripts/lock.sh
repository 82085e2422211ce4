#!/usr/bin/env bash
# Compile requirements/cpu.txt and requirements/viewer.txt from pyproject.toml. Needs uv.
#
# The files hold no addresses, so they install from whatever registry pip is set up for. They are made for every
# platform at once: a line's marker says where it counts. vLLM's CPU build wants torch==2.13.0+cpu, which comes from
# PyTorch's CPU index, or from the folder in PIP_FIND_LINKS where that is set.
# What is locked stays as it is unless asked: scripts/lock.sh --upgrade, or --upgrade-package NAME.
set -euo pipefail
cd "$(dirname "$0")/.."

compile() {
    local output=$1
    shift
    uv pip compile pyproject.toml "$@" --universal --fork-strategy fewest --python-version 3.11 --quiet \
        --no-header --no-emit-index-url --no-emit-find-links --output-file "$output"
    echo "$output: $(grep -c '==' "$output") packages"
}

if [ -n "${PIP_FIND_LINKS:-}" ]; then
    torch=(--find-links "$PIP_FIND_LINKS")
else
    torch=(--torch-backend cpu)
fi

compile requirements/cpu.txt --override requirements/overrides.txt "${torch[@]}" \
    --extra cpu --extra notebooks --extra paper --extra perfetto --extra ray --extra dev "$@"
# The same versions as in the full lock, so that both ways in show the same thing.
compile requirements/viewer.txt --constraint requirements/cpu.txt "$@"
