#!/bin/bash
# libraries.sh DIR: static archives, in DIR/lib, of the libraries of which Debian has shared ones alone, or
# whose archive needs what has no archive (libzmq: Kerberos) or fits into no shared library (libkj, since
# its thread-local variables are a program's). They are compiled from Debian's own
# sources of the versions that are installed, which apt checks, so that the installed headers fit.
# What is there already stays: another version of Debian, another DIR.
set -euo pipefail
[ $# = 1 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
mkdir -p "$1/lib" "$1/source" "$1/apt/lists/partial" "$1/apt/cache/archives/partial"
dir=$(cd "$1" && pwd)
jobs=$(nproc)

if ! command -v apt-get >/dev/null || ! command -v dpkg-source >/dev/null; then
  echo "libraries.sh: no apt or dpkg-source here; archives of libzmq, libzip, simdjson," \
    "prometheus-cpp and cpp-httplib belong into $dir/lib" >&2
  exit 1
fi

# apt as this machine has it, but for lists of sources, which live below DIR and need no root.
apt_sources() {
  apt-get -q -o Dir::Etc::sourcelist="$dir/apt/sources.list" -o Dir::Etc::sourceparts=- \
    -o APT::Sandbox::User="$(id -un)" -o Dir::State::lists="$dir/apt/lists" -o Dir::Cache="$dir/apt/cache" "$@" </dev/null
}

# The mirrors of this machine's packages, as mirrors of sources.
write_sources_list() {
  local codename keys=/usr/share/keyrings/debian-archive-keyring.gpg
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  # Fields of apt's, not of the shell.
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' | sort -u |
    while read -r uri release; do
      case $release in "$codename"*) echo "deb-src [signed-by=$keys] $uri $release main" ;; esac
    done >"$dir/apt/sources.list"
  [ -s "$dir/apt/sources.list" ] || { echo "libraries.sh: no mirror of $codename here" >&2; exit 1; }
}

listed=
# fetch SOURCE PACKAGE: the source's folder, of the version that PACKAGE has here, in $folder
fetch() {
  local version
  version=$(dpkg-query -W -f '${source:Version}' "$2")
  folder=$dir/source/$1
  [ ! -d "$folder" ] || return 0
  if [ -z "$listed" ]; then
    write_sources_list
    apt_sources update >/dev/null
    listed=1
  fi
  (cd "$dir/source" && apt_sources source --download-only "$1=$version" >/dev/null)
  dpkg-source --no-check -x "$dir/source/$1_${version#*:}.dsc" "$folder.new" >/dev/null
  mv "$folder.new" "$folder"
}

# archive NAME SOURCE PACKAGE TARGET OPTION...: lib/NAME.a by CMake, from the target
archive() {
  local name=$1 source=$2 package=$3 target=$4
  shift 4
  [ ! -s "$dir/lib/$name.a" ] || return 0
  echo "$name.a from Debian's $source"
  fetch "$source" "$package"
  if ! (cmake -S "$folder" -B "$dir/$name" -G Ninja -Wno-dev -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_C_COMPILER_LAUNCHER="$(command -v ccache)" \
    -DCMAKE_CXX_COMPILER_LAUNCHER="$(command -v ccache)" "$@" &&
    cmake --build "$dir/$name" -j "$jobs" --target "$target") >"$dir/$name.log" 2>&1; then
    tail -20 "$dir/$name.log" >&2
    exit 1
  fi
  # CMake may call it after the target, where Debian does not.
  cp "$(find "$dir/$name" -name "$name.a" -o -name "lib$target.a" | head -1)" "$dir/lib/$name.a.new"
  mv "$dir/lib/$name.a.new" "$dir/lib/$name.a"
  rm -rf "${dir:?}/$name"
}

archive libzmq zeromq3 libzmq3-dev libzmq-static -DBUILD_SHARED=OFF -DBUILD_STATIC=ON -DBUILD_TESTS=OFF \
  -DWITH_LIBSODIUM=ON -DENABLE_CURVE=ON -DWITH_LIBBSD=OFF -DWITH_OPENPGM=OFF -DWITH_NORM=OFF \
  -DWITH_VMCI=OFF -DWITH_TLS=OFF -DWITH_DOC=OFF -DENABLE_CPACK=OFF -DZMQ_BUILD_FRAMEWORK=OFF
archive libzip libzip libzip-dev zip -DENABLE_COMMONCRYPTO=OFF -DENABLE_GNUTLS=OFF -DENABLE_MBEDTLS=OFF \
  -DENABLE_OPENSSL=OFF -DENABLE_BZIP2=OFF -DENABLE_LZMA=OFF -DBUILD_TOOLS=OFF -DBUILD_REGRESS=OFF \
  -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF
archive libkj capnproto libcapnp-dev kj -DBUILD_TESTING=OFF -DWITH_OPENSSL=OFF -DWITH_ZLIB=OFF
archive libsimdjson simdjson libsimdjson-dev simdjson -DSIMDJSON_DEVELOPER_MODE=OFF
archive libprometheus-cpp-core prometheus-cpp prometheus-cpp-dev core -DENABLE_PULL=OFF -DENABLE_PUSH=OFF \
  -DENABLE_TESTING=OFF -DENABLE_COMPRESSION=OFF -DUSE_THIRDPARTY_LIBRARIES=OFF
# The features that Debian's headers are compiled with: they are part of the classes' layout.
archive libcpp-httplib cpp-httplib libcpp-httplib-dev httplib -DHTTPLIB_COMPILE=ON -DHTTPLIB_REQUIRE_OPENSSL=ON \
  -DHTTPLIB_REQUIRE_ZLIB=ON -DHTTPLIB_REQUIRE_BROTLI=ON
