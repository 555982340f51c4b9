#!/bin/bash
# bundle.sh BUILD_DIR: packs what a machine with a GPU needs to run gpu-check: stripped programs, the
# libraries they link, cases and the script. NVIDIA's libraries and libc are the machine's own.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$(cd "$1" && pwd)
bytes_max=$((60 * 1024 * 1024))
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
top=$stage/lfarm-gpu
mkdir -p "$top/bin" "$top/tests" "$top/lib" "$top/cases"

for name in lfarm lfarm-worker lfarm-coordinator lfarm-bench; do
  strip -o "$top/bin/$name" "$build/bin/$name"
done
for program in "$build"/tests/test_codegen_*_cuda "$build"/tests/test_cuda_{device,products}; do
  [ "$(basename "$program")" != test_codegen_fuzz_cuda ] || continue
  strip -o "$top/tests/$(basename "$program")" "$program"
done

mkdir -p "$top/python/lfarm" "$top/python/tests"
strip --strip-unneeded -o "$top/lib/liblfarm.so.1" "$build/lib/liblfarm.so.1"
cp "$root"/clients/python/lfarm/*.py "$top/python/lfarm/"
cp "$root"/tests/python/{conftest,test_gpu,test_torch_gpu}.py "$top/python/tests/"

# Of ldd's "name => path (address)" lines.
ldd "$top"/bin/* "$top"/tests/* "$top/lib/liblfarm.so.1" | sed -n 's/^\t\([^ ]*\) => \(\/[^ ]*\) .*/\1 \2/p' | sort -u |
  while read -r name path; do
    case $name in
      libc.so.* | libm.so.* | libpthread.so.* | libdl.so.* | librt.so.* | libresolv.so.* | ld-linux*) ;;
      libcuda.so.* | libnv* | libcublas* | libcudart*) ;;
      *) cp -L "$path" "$top/lib/$name" ;;
    esac
  done
chmod u+w "$top"/lib/*
strip --strip-unneeded "$top"/lib/* 2>/dev/null || true

cp -r "$root/tests/fixtures/models" "$root/tests/fixtures/operators" "$top/cases/"
cp "$here/gpu-check.sh" "$top/gpu-check"
cp "$here"/torch_{peers,kernels,llm}.py "$top/"

archive=$build/lfarm-gpu-bundle.tar.gz
tar -C "$stage" --owner=0 --group=0 -czf "$archive" lfarm-gpu
bytes=$(stat -c %s "$archive")
if [ "$bytes" -gt "$bytes_max" ]; then
  rm -f "$archive"
  echo "gpu-bundle: $bytes bytes, more than the $bytes_max that a bundle may have" >&2
  exit 1
fi
echo "$archive: $bytes bytes; unpack it beside a GPU and run lfarm-gpu/gpu-check"
