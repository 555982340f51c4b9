#!/bin/bash
# package.sh BUILD: installs the components as `cmake --install` does, and makes the Debian packages.
# If it fails, what users install lacks a program, a page of the manual or a dependency.
set -euo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
started=()
trap 'for process in "${started[@]}"; do kill "$process" 2>/dev/null || true; done; wait; rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
fail() { echo "package.sh: $*" >&2; exit 1; }

for component in client runtime farm development python; do
  cmake --install "$build" --component $component --prefix "$prefix" >/dev/null
done
for file in bin/lfarm bin/lfarm-coordinator bin/lfarm-worker include/lfarm.h share/man/man1/lfarm.1 \
            share/man/man1/lfarm-cache-ls.1 share/man/man1/lfarm-coordinator.1 \
            share/man/man1/lfarm-worker.1 lib/systemd/system/lfarm-worker.service \
            lib/systemd/system/lfarm-coordinator.service lib/systemd/system/lfarm-signer.service \
            lib/sysusers.d/lfarm.conf share/lfarm/with-signer.conf \
            lib/python3/dist-packages/lfarm/__init__.py; do
  [ -s "$prefix/$file" ] || fail "no $file"
done
[ -e "$prefix/lib/python3/dist-packages/lfarm/py.typed" ] || fail "no py.typed"

# One version: of the programs, the Python package and the changelog.
version=$("$prefix/bin/lfarm" --version)
grep -qx "__version__ = \"${version#lfarm }\"" "$root/clients/python/lfarm/__init__.py" ||
  fail "clients/python/lfarm/__init__.py has another version than $version"
grep -qx "version = \"${version#lfarm }\"" "$root/clients/python/pyproject.toml" ||
  fail "clients/python/pyproject.toml has another version than $version"
[ "$(grep -m1 '^## ' "$root/CHANGELOG.md")" = "## ${version#lfarm }" ] ||
  fail "CHANGELOG.md does not begin with $version"

# The units' commands, with their variables as systemd would set them: the coordinator's plans are
# signed by the signer's process.
units=$prefix/lib/systemd/system
start_unit() {  # start_unit NAME VARIABLE=VALUE...: its ExecStart, with $scratch in place of /run and /var/lib
  local name=$1 command
  shift
  command=$(sed -n 's/^ExecStart=//p' "$units/$name.service")
  mkdir -p -m 700 "$scratch/run/$name" "$scratch/state/$name"
  env PATH="$prefix/bin:$PATH" RUNTIME_DIRECTORY="$scratch/run/$name" \
    STATE_DIRECTORY="$scratch/state/$name" "$@" \
    bash -c "exec ${command#/usr/bin/}" >"$scratch/$name.out" 2>&1 &
  started+=($!)
  for _ in $(seq 600); do
    grep -q '^signing key ' "$scratch/$name.out" && return
    kill -0 $! 2>/dev/null || break
    sleep 0.1
  done
  cat "$scratch/$name.out" >&2
  fail "$name does not start as its unit says"
}
key_of() { sed -n 's/^signing key //p' "$scratch/$1.out"; }
signer=$(sed -n 's/^Environment="LFARM_SIGNER=\(.*\)"$/\1/p' "$prefix/share/lfarm/with-signer.conf")
start_unit lfarm-signer LFARM_OPTIONS=
start_unit lfarm-coordinator LFARM_LISTEN="ipc://$scratch/farm" LFARM_OPTIONS= \
  LFARM_SIGNER="${signer/\/run\//$scratch/run/}"
[ "$(key_of lfarm-coordinator)" = "$(key_of lfarm-signer)" ] || fail "the coordinator has a key of its own"
[ ! -e "$scratch/state/lfarm-coordinator/signing.key" ] || fail "the coordinator made a signing key"
grep -qx "SupplementaryGroups=$(sed -n 's/^Group=//p' "$units/lfarm-signer.service")" \
  "$prefix/share/lfarm/with-signer.conf" || fail "the coordinator has not the group of the signer's socket"
grep -qx "g $(sed -n 's/^Group=//p' "$units/lfarm-signer.service") -" "$prefix/lib/sysusers.d/lfarm.conf" ||
  fail "nobody makes the group of the signer's socket"
if command -v systemd-analyze >/dev/null; then
  said=$(cd "$units" && systemd-analyze verify --man=no ./*.service 2>&1) || true
  ! grep -q 'Unknown\|Failed to parse' <<<"$said" || fail "systemd: $said"
fi

# The completion, asked as bash asks.
complete_words() {  # complete_words WORD...: what the last word can become
  bash -c 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _lfarm; echo "${COMPREPLY[@]}"' \
    "$prefix/share/bash-completion/completions/lfarm" "$@"
}
[ "$(complete_words lfarm sub)" = submit ] || fail "lfarm sub: $(complete_words lfarm sub)"
[ "$(complete_words lfarm cache st)" = stats ] || fail "lfarm cache st: $(complete_words lfarm cache st)"
[ "$(complete_words lfarm plan score --aga)" = --against ] || fail "no option of a command of two words"
[ -z "$(complete_words lfarm submit model)" ] || fail "a file's name was taken for an option"

# The same in zsh, whose functions that show words are replaced by ones that print them.
zsh_words() {
  zsh -f -c 'compdef() { }; _files() { }; _describe() { print -l -- "${(@)${(@P)argv[-1]}%%:*}" }
    source $1; words=("${(@)argv[2,-1]}"); CURRENT=$#words; _lfarm' \
    zsh "$prefix/share/zsh/vendor-completions/_lfarm" "$@"
}
if command -v zsh >/dev/null; then
  zsh_words lfarm sub | grep -qx submit || fail "zsh: no lfarm submit"
  zsh_words lfarm cache st | grep -qx stats || fail "zsh: no lfarm cache stats"
  zsh_words lfarm plan score --aga | grep -qx -e --against || fail "zsh: no option of two words"
  [ -z "$(zsh_words lfarm submit model)" ] || fail "zsh: a file's name was taken for an option"
else
  echo "package.sh: no zsh here, so that its completion is not asked"
fi
fish_words() { HOME=$scratch fish --no-config -c "source $prefix/share/fish/vendor_completions.d/lfarm.fish
  complete -C '$1'" | cut -f1; }
if command -v fish >/dev/null; then
  fish_words 'lfarm sub' | grep -qx submit || fail "fish: no lfarm submit"
  fish_words 'lfarm cache st' | grep -qx stats || fail "fish: no lfarm cache stats"
  fish_words 'lfarm plan score --aga' | grep -qx -e --against || fail "fish: no option of two words"
  fish_words 'lfarm submit mod' | grep -q '^-' && fail "fish: a file's name was taken for an option"
else
  echo "package.sh: no fish here, so that its completion is not asked"
fi

# The manual has a page for each command, and troff takes it.
if command -v man >/dev/null; then
  for page in "$prefix"/share/man/man1/*.1; do
    said=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" 2>&1 >"$scratch/page") || fail "$page"
    [ -z "$said" ] || fail "$page: $said"
    grep -q SYNOPSIS "$scratch/page" || fail "$page has no synopsis"
  done
fi

# Where Debian's Python finds it: its version, and what pyproject.toml tells torch.compile of.
told=$(PYTHONPATH=$prefix/lib/python3/dist-packages /usr/bin/python3 -B -c 'import importlib.metadata as m
lfarm = m.distribution("lfarm")
print(lfarm.version, *(f"{each.group}.{each.name}={each.value}" for each in lfarm.entry_points))')
[ "$told" = "${version#lfarm } torch_dynamo_backends.lfarm=lfarm.compile:backend" ] || fail "Python is told: $told"
grep -A1 'torch_dynamo_backends' "$root/clients/python/pyproject.toml" | grep -qx 'lfarm = "lfarm.compile:backend"' ||
  fail "clients/python/pyproject.toml names another backend"

if command -v dpkg-shlibdeps >/dev/null && command -v dpkg-deb >/dev/null; then
  (cd "$scratch" && cpack --config "$build/CPackConfig.cmake" -B "$scratch/packages" >cpack.log 2>&1) ||
    { cat "$scratch/cpack.log" >&2; fail "cpack"; }
  for package in lfarm-client lfarm-farm liblfarm-dev python3-lfarm; do
    deb=$(echo "$scratch"/packages/${package}_*.deb)
    [ "$(dpkg-deb -f "$deb" Version)" = "${version#lfarm }" ] || fail "$deb has another version"
    dpkg-deb -c "$deb" >"$scratch/$package"
  done
  dpkg-deb -f "$scratch"/packages/lfarm-client_*.deb Depends | grep -q libzmq5 ||
    fail "lfarm-client does not name the libraries that it needs"
  dpkg-deb -f "$scratch"/packages/lfarm-farm_*.deb Depends | grep -q clang || fail "no compiler of kernels"
  grep -q 'usr/lib/systemd/system/lfarm-signer.service$' "$scratch/lfarm-farm" || fail "no unit of the signer"
  dpkg-deb -I "$scratch"/packages/lfarm-farm_*.deb postinst | grep -q systemd-sysusers ||
    fail "the package does not make the signer's group"
  grep -q 'usr/lib/.*/liblfarm.so.1$\|liblfarm.so.1 ->' "$scratch/lfarm-client" || fail "no liblfarm"
  grep -q 'liblfarm.so ->' "$scratch/liblfarm-dev" || fail "no link to build with"
  grep -q 'usr/lib/python3/dist-packages/lfarm/__init__.py$' "$scratch/python3-lfarm" || fail "no Python package"
  [ "$(dpkg-deb -f "$scratch"/packages/python3-lfarm_*.deb Architecture)" = all ] || fail "Python of one machine"
  dpkg-deb -f "$scratch"/packages/python3-lfarm_*.deb Depends | grep -q 'lfarm-client (= .*python3-numpy' ||
    fail "python3-lfarm does not name the library that it loads"
else
  echo "package.sh: no dpkg here, so that no Debian package is made"
fi
echo "package.sh: well"
