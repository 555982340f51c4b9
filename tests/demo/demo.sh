#!/bin/bash
# demo.sh BIN_DIR: lfarm from end to end on this machine: a farm of two CPU workers compiles a small
# Llama, serves it from the cache, runs it, and is compared with what PyTorch computed.
set -euo pipefail
bin=$(cd "${1:-build/bin}" && pwd)
cd "$(dirname "$0")/../fixtures/models"
state=$(mktemp -d)
export LFARM_STATE=$state
farm=

stop() {
  if [ -n "$farm" ]; then
    kill -TERM "$farm" 2>/dev/null || true
    wait "$farm" || echo "the farm ended with exit code $?"
    farm=
  fi
}
trap 'stop; rm -rf "$state"' EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$1"; }
[ -t 1 ] || say() { printf '\n%s\n' "$1"; }
show() {  # show COMMAND...: prints it as a user would type it, then runs it
  printf '$ lfarm %s\n' "$*"
  "$bin/lfarm" "$@"
}

say "1. A farm: one coordinator, two workers, each a process of its own."
printf '$ lfarm up --workers 2 &\n'
"$bin/lfarm" up --workers 2 --device cpu >"$state/up.log" 2>&1 &
farm=$!
# The endpoint's file is there once the coordinator listens.
for _ in $(seq 300); do
  [ -s "$state/endpoint" ] && grep -q '^farm at' "$state/up.log" && break
  kill -0 "$farm" 2>/dev/null || { cat "$state/up.log" >&2; exit 1; }
  sleep 0.1
done
cat "$state/up.log"

say "2. A model that torch.export saved; nobody has compiled it here before."
show submit llama/model.pt2 --budget 48

say "3. The same model again: the plan comes from the cache and nothing is compiled."
show submit llama/model.pt2 --budget 48

say "4. It runs: inputs and outputs are NumPy files. The plan carries its machine code."
show run llama/model.pt2 --inputs llama/inputs --outputs "$state/outputs"
ls -l "$state/outputs"

say "5. Are they PyTorch's numbers? The same case, compared with the outputs that PyTorch saved."
show check llama

say "6. What the farm knows now."
show cache stats
show status

say "7. SIGTERM stops the farm; its cache stays for the next one."
stop
echo "farm stopped"
