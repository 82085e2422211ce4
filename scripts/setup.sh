#!/usr/bin/env bash
# Create .venv with the locked packages and radixflow itself, or return at once where that is done.
#
#   scripts/setup.sh engine   vLLM's CPU build, viewer, notebooks and tests (requirements/cpu.txt)
#   scripts/setup.sh viewer   the viewer alone, no vLLM and no torch (requirements/viewer.txt)
#
# PYTHON names the interpreter to build on. What pip says goes to .venv/setup.log, and is shown where it fails.
set -euo pipefail
cd "$(dirname "$0")/.."

kind=${1:-engine}
case $kind in
    engine) lock=requirements/cpu.txt ;;
    viewer) lock=requirements/viewer.txt ;;
    *) echo "setup: engine or viewer expected, not '$kind'" >&2; exit 2 ;;
esac

venv=.venv
python=$venv/bin/python
log=$venv/setup.log
started=$SECONDS

# Each stamp holds a sum of what it was made from; the path is in it, because scripts and links in .venv hold it too.
sum_of() { { pwd; cat "$@"; } | cksum; }
packages_now=$(sum_of "$lock")
project_now=$(sum_of pyproject.toml setup.py)
stamped() { [ -f "$venv/$1.stamp" ] && [ "$(cat "$venv/$1.stamp")" = "$2" ]; }

works() { [ -x "$python" ] && "$python" -c "import pip" 2>/dev/null; }
# Everything in the viewer's lock is in the engine's, at the same version.
packages_ready() {
    stamped "packages-$kind" "$packages_now" ||
        { [ "$kind" = viewer ] && stamped packages-engine "$(sum_of requirements/cpu.txt)"; }
}

if works && packages_ready && stamped project "$project_now"; then
    exit 0
fi

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3.11 python3.12 python3.13 python3}; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "setup: no ${PYTHON:-python3} that is Python 3.11 or newer and has venv (Debian: apt-get install python3-venv)" >&2
    return 1
}

interrupted() {
    kill -- -"$1" 2>/dev/null
    printf '\nsetup: interrupted; the next make goes on from here\n'
    trap - INT
    kill -INT $$
}

# step TEXT COUNTER COMMAND...: one line that says what is done and how long it took; on a terminal the line counts
# along with what COUNTER prints.
step() {
    local text=$1 counter=$2 begun=$SECONDS pid
    shift 2
    printf '  %s' "$text"
    # A process group of its own, so that an interrupt ends pip as well.
    set -m
    "$@" >>"$log" 2>&1 </dev/null &
    pid=$!
    set +m
    trap 'interrupted "$pid"' INT TERM
    while [ -t 1 ] && kill -0 "$pid" 2>/dev/null; do
        printf '\r\033[K  %s  %s' "$text" "$($counter)"
        sleep 1
    done
    if wait "$pid"; then
        [ -t 1 ] && printf '\r\033[K  %s' "$text"
        printf '  %d s\n' $((SECONDS - begun))
        trap - INT TERM
    else
        printf '  failed\n\n' >&2
        tail -n 25 "$log" >&2
        echo "setup: the whole output is in $log" >&2
        exit 1
    fi
}

pip() { "$python" -m pip --disable-pip-version-check --no-input "$@"; }
install() { pip install --no-deps --no-compile --progress-bar off "$@"; }

# torch alone, so that only it asks PyTorch's index, and only where nothing else has the CPU build.
install_torch() {
    grep '^torch==' "$lock" >"$venv/torch.txt"
    install -r "$venv/torch.txt" ||
        install --index-url https://download.pytorch.org/whl/cpu -r "$venv/torch.txt"
}
# uv installs the same files in a tenth of pip's time; pip does it where uv isn't to be had, or can't reach the registry
# that pip is set up for.
install_packages() {
    { install "$(grep '^uv==' requirements/cpu.txt)" &&
        "$python" -m uv pip install --python "$python" --no-deps --no-progress -r "$lock"; } ||
        install -r "$lock"
}
# Without bytecode `import vllm` takes twice as long. The heaviest packages now, on every core; the rest, and what is
# mostly never imported, when it is first imported. Some files are templates or for a later Python: no error of ours.
compile() {
    local name folders=()
    for name in vllm torch transformers sympy pandas numpy plotly dash matplotlib; do
        [ -d "$(site_packages)/$name" ] && folders+=("$(site_packages)/$name")
    done
    "$python" -m compileall -q -j 0 -x '/site-packages/(.*/tests?|torch/testing|transformers/models)/' "${folders[@]}" ||
        true
}

site_packages() { "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }
total=$(grep -c '^[a-z].*==' "$lock")
nothing() { :; }
installed() { echo "$(find "$(site_packages)" -maxdepth 1 -name '*.dist-info' | wc -l) installed"; }

if ! works; then
    base=$(find_python)
    rm -rf "$venv"
    mkdir -p "$venv"
    : >"$log"
    echo "Setting up .venv with $("$base" --version), once ($kind)"
    step "environment" nothing "$base" -m venv "$venv"
else
    : >"$log"
    echo "Bringing .venv up to date ($kind)"
fi

if ! packages_ready; then
    if [ "$kind" = engine ]; then
        step "torch, CPU build" nothing install_torch
    fi
    step "$total packages from $lock" installed install_packages
    step "bytecode" nothing compile
    echo "$packages_now" >"$venv/packages-$kind.stamp"
fi

if ! stamped project "$project_now"; then
    step "radixflow" nothing install --no-build-isolation --editable .
    echo "$project_now" >"$venv/project.stamp"
fi
echo "Ready in $((SECONDS - started)) s: .venv/bin/radixflow"
