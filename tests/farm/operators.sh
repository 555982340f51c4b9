#!/bin/sh
# operators.sh BIN CASES: checks all cases through a farm with a state directory of its own.
set -eu
state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT INT TERM
"$1/lfarm" check --budget 1 --state "$state" "$2"/*/ >"$state/log" 2>&1 || {
  grep -v '^PASS' "$state/log"
  exit 1
}
tail -n 1 "$state/log"
