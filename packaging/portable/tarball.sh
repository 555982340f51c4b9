#!/bin/bash
# tarball.sh BUILD OUT: OUT/lfarm-VERSION-linux-x86_64.tar.gz, whose folders are a prefix: all programs,
# liblfarm with its headers, manual, completion and units, of the preset `portable`'s build.
set -euo pipefail
build=$(cd "$1" && pwd)
version=$("$build/bin/lfarm" --version | sed 's/.* //')
mkdir -p "$2"
out=$(cd "$2" && pwd)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
name=lfarm-$version-linux-x86_64

for component in client runtime farm development; do
  cmake --install "$build" --component $component --prefix "$stage/$name" --strip >/dev/null
done
# Of glibc and of libgcc, which every system has, and of nothing else.
for file in "$stage/$name"/bin/* "$stage/$name"/lib*/liblfarm.so.1; do
  needed=$(readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vxE 'lib(c|m|dl|pthread|rt|gcc_s)\.so\.[0-9]+|ld-linux-x86-64\.so\.2' || true)
  [ -z "$needed" ] || { echo "tarball.sh: $file needs $needed" >&2; exit 1; }
done
tar -C "$stage" --owner=0 --group=0 --sort=name --mtime="@${SOURCE_DATE_EPOCH:-315532800}" \
  -czf "$out/$name.tar.gz" "$name"
echo "$out/$name.tar.gz: $(stat -c %s "$out/$name.tar.gz") bytes"
