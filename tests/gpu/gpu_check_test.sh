#!/bin/bash
# gpu_check_test.sh BUILD_DIR: gpu-check on the emulated GPU is clean, says so in both reports, fails
# with a case whose outputs are wrong or a sanitizer that complains, and exits 2 without a device.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "gpu_check_test: $1" >&2; cat "$work/log" >&2; exit 1; }

# run CODE ARGUMENTS...: gpu-check has to exit with CODE.
run() {
  local wanted=$1 code=0
  shift
  "$here/gpu-check.sh" --out "$work/out" "$@" >"$work/log" 2>&1 || code=$?
  [ $code = "$wanted" ] || fail "exit code $code instead of $wanted"
}
reported() { grep -q -- "$2" "$work/out/$1" || { cat "$work/out/$1" >&2; fail "no $2 in $1"; }; }

LFARM_BUILD=$(cd "$1" && pwd)
export LFARM_BUILD LFARM_EMULATED=1
run 0 --steps "tests cases python bench"
reported gpu-check.json '"clean":true'
reported gpu-check.json '"name":"test_codegen_tile_cuda","verdict":"pass"'
reported gpu-check.json '"name":"warpgroups","verdict":"pass"'
reported gpu-check.json '"name":"bundled_cases","verdict":"pass".*"3 passed, 0 failed, 0 unsupported"'
if python3 -c 'import pytest, numpy' 2>/dev/null; then
  reported gpu-check.json '"name":"test_gpu","verdict":"pass"'
  reported gpu-check.json '"name":"test_torch_gpu","verdict":"skipped".*torch'
fi
reported gpu-check.json '"name":"micro-benchmarks","verdict":"measured"'
reported bench.jsonl '"gpu":"rows","name":"softmax","dtype":"bf16"'
reported bench.jsonl '"gpu":"warpgroups","name":"gemm".*"warps_us":[0-9.]*,"warpgroups_us":'
reported gpu-check.md '^| cases | bundled_cases | pass '

# One element of the outputs is another.
cp -r "$here/../fixtures/models/mlp" "$work/wrong"
first=$(find "$work/wrong/outputs" -name '*.npy' | sort | head -n 1)
bytes=$(stat -c %s "$first")
printf '\x40\x41\x42\x43' | dd of="$first" bs=1 seek=$((bytes - 4)) conv=notrunc status=none
LFARM_CASES=$work/wrong run 1 --steps "cases"
reported gpu-check.json '"name":"more_cases","verdict":"fail"'

# Runs what it is given, and finds what the test wants it to find.
mkdir "$work/tools"
cat >"$work/tools/compute-sanitizer" <<'TOOL'
#!/bin/bash
while [[ $1 = --* ]]; do shift 2; done
"$@" && exit "$FOUND"
TOOL
chmod +x "$work/tools/compute-sanitizer"
unset CUDA_HOME CUDA_PATH
for found in 0 9; do
  FOUND=$found PATH=$work/tools:$PATH run $((found / 9)) --steps "sanitizer"
done
reported gpu-check.json '"name":"racecheck.test_codegen_tile_cuda","verdict":"fail"'

mkdir "$work/graphs"
xz -c "$here/../fixtures/models/mlp/model.pt2" >"$work/graphs/mlp.pt2.xz"
LFARM_MODELS=$work/graphs LFARM_BUDGET=1 run 0 --steps "models"
reported gpu-check.json '"name":"mlp","verdict":"measured".*lfarm [0-9][0-9.]* us'

# A python3 that imports everything; of the ways, torch.compile ends with an error.
cat >"$work/tools/python3" <<'TOOL'
#!/bin/bash
[ $# = 3 ] || exit 0
case $3 in *'"way":"inductor"'*) echo '{"error":"no memory"}'; exit ;; esac
echo '{"ready":1,"shape":"full"}'
echo '{"prompt_tokens":128,"ttft_ms":[5],"tpot_ms":[2],"plan_s":0,"peak_mb":1}'
TOOL
chmod +x "$work/tools/python3"
LFARM_LLM="--model qwen3_0.6b --way eager,torch.compile" PATH=$work/tools:$PATH run 0 --steps "llm"
reported gpu-check.json '"name":"llm","verdict":"measured".*2 rows in llm.jsonl, 1 without times: no memory'
LFARM_LLM="--model qwen3_0.6b --way torch.compile" PATH=$work/tools:$PATH run 0 --steps "llm"
reported gpu-check.json '"name":"llm","verdict":"fail"'

unset LFARM_EMULATED
CUDA_VISIBLE_DEVICES=-1 run 2
[ "$(wc -l <"$work/log")" = 1 ] || fail "more than one line about what is missing"
echo "gpu-check runs"
