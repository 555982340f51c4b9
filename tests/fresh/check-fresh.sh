#!/bin/bash
# check-fresh.sh DEBS PORTABLE [SUITE...]: installs what `make package` (DEBS, a folder) and `make wheel`
# (PORTABLE) made into fresh systems of the suites (bookworm trixie sid), made by debootstrap, and uses it
# there: submits, runs, compiles and trains a model (inside.sh). Needs root, debootstrap and a mirror.
#
# Debian packages belong to the release that built them and are tried in that one alone.
# FRESH_MIRROR  where debootstrap and apt get packages from; default: debootstrap's
# FRESH_BASE    a folder with systems that debootstrap made before, SUITE in each, which are copied
# FRESH_DIR     where systems are made, each removed when it is well; default: a temporary folder
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
[ $# -ge 2 ] || { sed -n '2s/^# //p' "$0" >&2; exit 2; }
debs=$(cd "$1" && pwd)
portable=$(cd "$2" && pwd)
shift 2
suites=${*:-bookworm trixie sid}
[ "$(id -u)" = 0 ] || { echo "check-fresh: debootstrap needs root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "check-fresh: install debootstrap" >&2; exit 2; }
if [ -n "${FRESH_DIR:-}" ]; then
  folder=$FRESH_DIR
  mkdir -p "$folder"
else
  folder=$(mktemp -d)
  trap 'rm -rf --one-file-system "$folder"' EXIT
fi
built_on=$(. /etc/os-release && echo "$VERSION_CODENAME")

# in_system SYSTEM COMMAND...: with processes and mounts that end with the command.
in_system() {
  local system=$1
  shift
  # The inner shell's arguments.
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -euc '
    mount --make-rprivate /
    mount -t proc proc "$0/proc"
    mount --rbind /dev "$0/dev"
    mount -t tmpfs tmpfs "$0/run"
    exec chroot "$0" "$@"' "$system" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@" </dev/null
}

bootstrap() {  # bootstrap SUITE SYSTEM
  debootstrap --variant=minbase "$1" "$2" ${FRESH_MIRROR:+"$FRESH_MIRROR"} >"$2.log" 2>&1 || {
    tail -5 "$2.log" >&2
    exit 1
  }
}

check() {  # check SUITE
  local suite=$1 system=$folder/$1 kinds="wheel tarball" began=$SECONDS
  rm -rf --one-file-system "$system"
  if [ -d "${FRESH_BASE:-}/$suite" ]; then
    cp -a "$FRESH_BASE/$suite" "$system"
  else
    bootstrap "$suite" "$system"
  fi
  echo "check-fresh: $suite: made: $((SECONDS - began)) s"
  cp /etc/resolv.conf "$system/etc/resolv.conf"
  # Mirrors may be snapshots, whose lists are signed as ever but count as out of date.
  echo 'Acquire::Check-Valid-Until "false";' >"$system/etc/apt/apt.conf.d/99snapshot"
  mkdir -p "$system/fresh"
  cp "$portable"/lfarm-*.whl "$portable"/lfarm-*.tar.gz "$here/inside.sh" "$system/fresh/"
  cp -r "$root/tests/fixtures/models/mlp" "$root/clients/examples" "$system/fresh/"
  if [ "$suite" = "$built_on" ]; then
    cp "$debs"/*.deb "$system/fresh/"
    kinds="packages $kinds"
  fi
  for kind in $kinds; do
    began=$SECONDS
    in_system "$system" bash /fresh/inside.sh "$kind" || { echo "check-fresh: $suite: $kind: FAILED" >&2; return 1; }
    echo "check-fresh: $suite: $kind: well, $((SECONDS - began)) s"
  done
  rm -rf --one-file-system "$system"
}

failed=
for suite in $suites; do
  # Not as a condition, where `set -e` would be off within.
  code=0
  (check "$suite") || code=$?
  [ $code = 0 ] || failed="$failed $suite"
done
[ -z "$failed" ] || { echo "check-fresh: FAILED:$failed" >&2; exit 1; }
