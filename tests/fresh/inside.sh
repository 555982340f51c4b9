#!/bin/bash
# inside.sh packages|wheel|tarball: in a fresh system with this folder's files, installs one kind of what
# lfarm comes as, with what it needs of the system, and uses it. Afterwards it is not installed any more.
set -euo pipefail
cd "$(dirname "$0")"
kind=$1
LFARM_STATE=$(mktemp -d)
export LFARM_STATE

# step WHAT COMMAND...: says how long it took.
step() {
  local what=$1 began=$SECONDS
  shift
  "$@"
  echo "inside.sh: $kind: $what: $((SECONDS - began)) s"
}

update_lists() { apt-get update -q >/dev/null; }

install() {
  apt-get install -y -q --no-install-recommends "$@" >/tmp/apt.log 2>&1 || { tail -5 /tmp/apt.log >&2; exit 1; }
}

# What every kind has to do: the programs, as the page for newcomers calls them.
use_programs() {
  lfarm --version
  lfarm doctor
  step submit lfarm submit mlp --budget 4 --device cpu
  lfarm submit mlp --budget 4 --device cpu | grep -q 'cache *hit' || { echo "inside.sh: no cache hit" >&2; exit 1; }
  step run lfarm run mlp --inputs mlp/inputs --outputs "$LFARM_STATE/out" --budget 4 --device cpu
  step check lfarm check mlp --budget 4 --device cpu
}

# Compiling and training by PyTorch's front end, where this release's PyTorch has what that takes.
use_torch() {
  step 'install PyTorch' install python3-torch
  local version
  version=$(python3 -c 'import torch; print(torch.__version__)')
  if ! python3 -c 'import torch.export, sys; sys.exit(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6))' 2>/dev/null; then
    echo "inside.sh: left out: compiling and training, since PyTorch $version is too old"
    return 0
  fi
  # A graph that is left to PyTorch computes the same, and shows nothing.
  local strict=(python3 -W 'error:lfarm leaves a graph to torch')
  step "torch.compile with PyTorch $version" "${strict[@]}" examples/compile.py
  step "train with PyTorch $version" "${strict[@]}" examples/train.py
}

start_farm() {
  lfarm up --workers 1 --device cpu >/tmp/farm.log &
  farm=$!
  until grep -qs '^farm at' /tmp/farm.log; do
    kill -0 $farm || { cat /tmp/farm.log >&2; exit 1; }
    sleep 0.1
  done
}

step "update apt's lists" update_lists
case $kind in
  packages)
    step install install ./lfarm-client_*.deb ./lfarm-farm_*.deb ./liblfarm-dev_*.deb ./python3-lfarm_*.deb \
      gcc libc6-dev pkg-config
    use_programs
    # The words are pkg-config's.
    # shellcheck disable=SC2046
    cc examples/run.c $(pkg-config --cflags --libs lfarm) -o /tmp/run
    /tmp/run mlp/model.pt2 3 16
    python3 examples/run.py mlp/model.pt2 3 16
    apt-get purge -y -q lfarm-client lfarm-farm liblfarm-dev python3-lfarm >/dev/null 2>&1
    ;;
  wheel)
    step "install what the wheel needs" install gcc libc6-dev python3 python3-venv python3-numpy
    step "make an environment" python3 -m venv --system-site-packages /opt/lfarm
    step install /opt/lfarm/bin/python -m pip install -q --no-index --no-deps ./lfarm-*.whl
    export PATH=/opt/lfarm/bin:$PATH
    use_programs
    python3 examples/run.py mlp/model.pt2 3 16
    start_farm
    use_torch
    kill $farm
    wait $farm
    rm -rf /opt/lfarm
    ;;
  tarball)
    step "install what the tarball needs" install gcc libc6-dev
    step install tar -xzf lfarm-*.tar.gz -C /opt
    prefix=/opt/$(basename lfarm-*.tar.gz .tar.gz)
    export PATH=$prefix/bin:$PATH
    use_programs
    cc examples/run.c -I "$prefix/include" -L "$prefix/lib" -llfarm -o /tmp/run
    LD_LIBRARY_PATH=$prefix/lib /tmp/run mlp/model.pt2 3 16
    rm -rf /opt/lfarm-*
    ;;
  *) sed -n '2s/^# //p' "$0" >&2; exit 2 ;;
esac
