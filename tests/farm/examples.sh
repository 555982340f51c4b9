#!/bin/bash
# examples.sh BUILD: installs liblfarm and the Python package into a folder of their own, builds the
# example programs against them as a stranger would, and runs each with a farm of its own.
# LFARM_PRELOAD: a library that they load first, the runtime of a sanitizer that liblfarm is built with.
set -euo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
export LFARM_STATE=$scratch/state
unset LFARM_FARM
farm=
trap '[ -z "$farm" ] || kill "$farm"; wait; rm -rf "$scratch"' EXIT
model=$root/tests/fixtures/models/mlp/model.pt2

for component in runtime development; do
  cmake --install "$build" --component $component --prefix "$scratch/prefix" >/dev/null
done
cmake -S "$root/clients/examples" -B "$scratch/examples" -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
cmake --build "$scratch/examples" >/dev/null
flags=$(PKG_CONFIG_PATH=$scratch/prefix/lib/pkgconfig:$(echo "$scratch"/prefix/lib/*/pkgconfig) \
  pkg-config --cflags --libs lfarm)
# shellcheck disable=SC2086
cc "$root/clients/examples/run.c" $flags -o "$scratch/by_pkg_config"

"$build/bin/lfarm" up --workers 1 >"$scratch/up" &
farm=$!
for _ in $(seq 600); do
  grep -q '^farm at' "$scratch/up" && break
  sleep 0.1
done
"$build/bin/lfarm" submit "$model" --budget 2 >/dev/null

expect() {
  env ${LFARM_PRELOAD:+"LD_PRELOAD=$LFARM_PRELOAD"} "${@:2}" >"$scratch/out" || { echo "failed: ${*:2}"; exit 1; }
  grep -q "$1" "$scratch/out" || { echo "${*:2} printed:"; cat "$scratch/out"; exit 1; }
}
# One program in three languages: all print the same.
expect '^output 0: rank 2, first element -\?[0-9]' "$scratch/examples/run_c" "$model" 3 16
printed=$(cat "$scratch/out")
expect "^$printed\$" "$scratch/examples/run_cpp" "$model" 3 16
expect "^$printed\$" env LD_LIBRARY_PATH="$scratch/prefix/lib" "$scratch/by_pkg_config" "$model" 3 16
# A client needs no compiler, no store and no CUDA toolkit.
if ldd "$scratch"/prefix/lib/liblfarm.so | grep -E 'rocksdb|libcuda|nvrtc|cublas|openblas|LLVM|sqlite|hiredis'; then
  echo "liblfarm must not need these"
  exit 1
fi
for file in "$root"/clients/examples/*.{c,cc,py}; do
  [ "$(wc -l <"$file")" -lt 40 ] || { echo "$file is no small program any more"; exit 1; }
done

python=/usr/bin/python3
if ! "$python" -c 'import numpy, setuptools, pip' 2>/dev/null; then
  echo "SKIPPED the Python examples: $python lacks numpy, setuptools or pip"
  exit 0
fi
# Its build leaves folders beside the sources.
cp -r "$root/clients/python" "$scratch/python"
LFARM_LIBRARY=$build/lib/liblfarm.so.1 "$python" -m pip install -q --no-build-isolation --no-deps --no-index \
  --target "$scratch/site" "$scratch/python"
export PYTHONPATH=$scratch/site
expect "^$printed\$" "$python" "$root/clients/examples/run.py" "$model" 3 16
expect 'Plan(id=' "$python" -c "import lfarm, sys; print(lfarm.submit(sys.argv[1]))" "$model"
if "$python" -c 'import torch' 2>/dev/null; then
  expect 'the same as eager' "$python" "$root/clients/examples/compile.py"
  expect 'both losses are' "$python" "$root/clients/examples/train.py"
else
  echo "SKIPPED the PyTorch examples: $python has no torch"
fi
