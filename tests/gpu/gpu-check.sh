#!/bin/bash
# gpu-check.sh [--out DIR] [--quick] [--steps "NAME..."]: what this machine's GPU makes of lfarm.
#
# The same script runs in the source tree, on build/, and in the bundle that `make gpu-bundle` packs.
# Steps: doctor tests cases python sanitizer bench models llm. None stops the others. Each leaves its log
# and a JSON line in DIR (gpu-check); DIR/gpu-check.json and DIR/gpu-check.md have all of them.
# Exit codes: 0 when tests, cases, python and sanitizer are clean, 1 when not, 2 without a usable GPU.
#
# LFARM_CASES    a folder of more cases for `lfarm check`
# LFARM_MODELS   a folder of graphs for the step models, .pt2 or .pt2.xz: each is searched with
#                random weights and timed, then run by PyTorch where python3 has it
# LFARM_BUDGET   candidates for each case (default 2) and each of those graphs (default 32)
# LFARM_LLM      options of `lfarm-bench llm` for the step llm, such as "--model qwen3_4b" (default: five
#                models by four ways at full size, where python3 has PyTorch and transformers: hours)
# LFARM_BUILD    in the source tree, the build folder (default build)
# LFARM_EMULATED 1: on the emulated GPU of the source tree, with tiny sizes, which --quick asks for
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ -x "$here/bin/lfarm" ]; then
  bin=$here/bin tests=$here/tests cases=$here/cases libraries=$here/lib
  package=$here/python python_tests=$here/python/tests fixtures=$cases/models
  library=$here/lib/liblfarm.so.1
else
  root=$(cd "$here/../.." && pwd)
  build=${LFARM_BUILD:-$root/build}
  bin=$build/bin tests=$build/tests cases=$root/tests/fixtures libraries=
  package=$root/clients/python python_tests=$root/tests/python fixtures=$cases/models
  library=$build/lib/liblfarm.so.1
fi
out=gpu-check quick="" steps="doctor tests cases python sanitizer bench models llm"
while [ $# != 0 ]; do
  case $1 in
    --out) out=${2:?--out needs a folder}; shift ;;
    --steps) steps=${2:?--steps needs names}; shift ;;
    --quick) quick=1 ;;
    *) sed -n '2s/^# //p' "$0" >&2; exit 2 ;;
  esac
  shift
done
if [ -n "${LFARM_EMULATED:-}" ]; then
  libraries=$tests/emulator quick=1
  [ -e "$libraries/libcuda.so.1" ] || { echo "gpu-check: no emulated GPU in $libraries" >&2; exit 2; }
fi
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
LFARM_STATE=$(mktemp -d)
export LFARM_STATE
trap 'rm -rf "$LFARM_STATE"' EXIT
trap 'exit 1' INT TERM
rm -f "$out"/*.result.json

# NVRTC and cuBLASLt as Python's wheels bring them, for machines without a toolkit.
wheels=
find_wheels() {
  python3 -c 'import glob, sys
print(":".join(f for p in sys.path if p for f in glob.glob(p + "/nvidia/*/lib")))' 2>/dev/null
}

# on_device COMMAND...: with the libraries that are packed, or emulate; other programs keep theirs.
on_device() {
  local path=$libraries folder
  for folder in "${LD_LIBRARY_PATH:-}" "$wheels"; do path+=${folder:+${path:+:}$folder}; done
  LD_LIBRARY_PATH=$path "$@" </dev/null
}
is_asked() { case " $steps " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
quoted() { printf '"%s"' "$(printf %s "$1" | tr '\000-\037' ' ' | sed 's/[\\"]/\\&/g')"; }

unclean=0
rows=()
# result STEP NAME VERDICT START DETAIL: a verdict is pass, fail, skipped or measured.
result() {
  local seconds=$((SECONDS - $4)) line
  line="{\"step\":$(quoted "$1"),\"name\":$(quoted "$2"),\"verdict\":\"$3\",\"seconds\":$seconds,\"detail\":$(quoted "$5")}"
  printf '%s\n' "$line" >"$out/$2.result.json"
  rows+=("$line")
  printf '| %s | %s | %s | %d | %s |\n' "$1" "$2" "$3" "$seconds" "${5//|/\\|}" >>"$out/table"
  printf '%-9s %-26s %-8s %4d s  %s\n' "$1" "$2" "$3" "$seconds" "$5"
  case $1:$3 in tests:fail | cases:fail | python:fail | sanitizer:fail | doctor:fail) unclean=1 ;; esac
}

finish() {  # finish CODE
  {
    printf '{"emulated":%s,"quick":%s,"clean":%s,"results":[' "$([ -n "${LFARM_EMULATED:-}" ] && echo true || echo false)" \
      "$([ -n "$quick" ] && echo true || echo false)" "$([ "$1" = 0 ] && echo true || echo false)"
    local separator=
    for row in ${rows[@]+"${rows[@]}"}; do printf '%s\n %s' "$separator" "$row"; separator=,; done
    printf '\n]}\n'
  } >"$out/gpu-check.json"
  {
    printf '# gpu-check\n\n%s\n\n' "$(sed -n 's/^\(CUDA device 0\) *found *//p' "$out/doctor.log")"
    printf '| step | name | verdict | seconds | detail |\n|---|---|---|---:|---|\n'
    cat "$out/table"
    for part in bench torch llm; do
      # Every line is flat. The quotes are Markdown's.
      # shellcheck disable=SC2016
      [ ! -s "$out/$part.jsonl" ] || printf '\n```\n%s\n```\n' "$(sed 's/[{}"]//g; s/,/  /g' "$out/$part.jsonl")"
    done
  } >"$out/gpu-check.md"
  rm -f "$out/table"
  echo "$out/gpu-check.md"
  exit "$1"
}

# Without a device nothing else makes sense, so this step always runs.
: >"$out/table"
start=$SECONDS
examine() {
  on_device "$bin/lfarm" doctor --device cuda >"$out/doctor.log" 2>&1
  grep -q '^--device cuda *yes' "$out/doctor.log"
}
examine || { wheels=$(find_wheels) && [ -n "$wheels" ] && examine; }
says=$(sed -n 's/^--device cuda *[a-z]* *//p' "$out/doctor.log")
case $(sed -n 's/^--device cuda *\([a-z]*\).*/\1/p' "$out/doctor.log") in
  yes) result doctor doctor pass $start "$says" ;;
  *)
    result doctor doctor fail $start "$(tail -n 1 "$out/doctor.log")" >/dev/null
    echo "gpu-check: ${says:-lfarm does not start: $(tail -n 1 "$out/doctor.log")}" >&2
    finish 2 >/dev/null
    ;;
esac

# Google Test's own summary: how many passed, which failed.
summary_of() {
  local passed failed
  passed=$(sed -n 's/^\[  PASSED  \] \([0-9]* tests*\).*/\1/p' "$1")
  failed=$(sed -n 's/^\[  FAILED  \] \([^ ,]*\.[^ ,]*\).*/\1/p' "$1" | sort -u | tr '\n' ' ')
  echo "${passed:-nothing} passed${failed:+, failed: $failed}"
}

# run_test NAME PROGRAM FILTER
run_test() {
  local start=$SECONDS verdict=pass
  on_device timeout 1200 "$2" "--gtest_filter=$3" >"$out/$1.log" 2>&1 || verdict=fail
  # A suite that ran nothing proves nothing.
  grep -q '^\[  PASSED  \] [1-9]' "$out/$1.log" || verdict=fail
  result tests "$1" $verdict $start "$(summary_of "$out/$1.log")"
}

run_tests() {
  local program name filter products="*"
  for program in "$tests"/test_cuda_device "$tests"/test_cuda_products "$tests"/test_codegen_*_cuda; do
    name=$(basename "$program")
    [ "$name" != test_codegen_warpgroup_cuda ] || continue
    filter="-EmulatedDeviceTest.*:*Warpgroup*"
    if [ -n "$quick" ]; then
      case $name in
        test_codegen_tile_cuda) filter="*OrdersSizesAndTypes" ;;
        test_codegen_*) continue ;;
      esac
    fi
    run_test "$name" "$program" "$filter"
  done
  # In a process of their own: an error that sticks would look like everything else's.
  [ -z "$quick" ] || products="*.Products"
  run_test warpgroups "$tests/test_codegen_warpgroup_cuda" "$products"
}

# check_cases NAME FOLDER...: below each folder, every one with a model.pt2.
check_cases() {
  local name=$1 start=$SECONDS verdict=pass folders=() model
  shift
  while IFS= read -r model; do folders+=("$(dirname "$model")"); done \
    < <(find "$@" -name model.pt2 | sort)
  [ ${#folders[@]} != 0 ] || { result cases "$name" fail $start "no cases in $*"; return; }
  [ -z "$quick" ] || folders=("${folders[@]:0:3}")
  on_device "$bin/lfarm" check --device cuda --budget "${LFARM_BUDGET:-2}" \
    --json "$out/$name.json" "${folders[@]}" >"$out/$name.log" 2>&1
  local code=$? counts
  counts=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$out/$name.log" | tail -n 1)
  case $counts in
    *" 0 failed"*) [ $code = 0 ] || [ "$name" != bundled_cases ] || verdict=fail ;;
    *) verdict=fail ;;
  esac
  result cases "$name" $verdict $start "${counts:-$(tail -n 1 "$out/$name.log")}"
}

# The Python package on arrays and torch tensors of the GPU's; each skips without what it needs.
run_python() {
  local name start verdict code says
  python3 -c 'import pytest' 2>/dev/null || {
    result python pytest skipped $SECONDS "python3 has no pytest"
    return
  }
  for name in test_gpu test_torch_gpu; do
    start=$SECONDS verdict=pass code=0
    on_device env PYTHONPATH="$package" LFARM_LIBRARY="$library" LFARM_BIN="$bin" \
      LFARM_FIXTURES="$fixtures" timeout 1800 python3 -B -m pytest -q -rs -p no:cacheprovider \
      "$python_tests/$name.py" >"$out/$name.log" 2>&1 || code=$?
    says=$(tail -n 1 "$out/$name.log")
    # 5: all of the file was skipped.
    case $code in
      0) case $says in *passed*) ;; *) verdict=skipped ;; esac ;;
      5) verdict=skipped ;;
      *) verdict=fail ;;
    esac
    [ $verdict != skipped ] || says=$(sed -n 's/^SKIPPED [^:]*: *[0-9:]* *//p' "$out/$name.log" | head -n 1)
    result python "$name" $verdict $start "$says"
  done
}

find_sanitizer() {
  local nvcc folder
  nvcc=$(readlink -f "$(command -v nvcc || true)")
  for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" "${nvcc%/bin/nvcc}"; do
    [ -n "$folder" ] && [ -x "$folder/bin/compute-sanitizer" ] && { echo "$folder/bin/compute-sanitizer"; return; }
  done
  command -v compute-sanitizer
}

# A sample of each template's kernels, because every access costs a hundredfold.
sanitize() {
  local sanitizer tool start verdict log program filter
  sanitizer=$(find_sanitizer) || {
    result sanitizer compute-sanitizer skipped $SECONDS "compute-sanitizer is not installed"
    return
  }
  while read -r program filter; do
    [ -z "$quick" ] || [ "$program" = test_codegen_tile_cuda ] || continue
    for tool in memcheck racecheck; do
      start=$SECONDS verdict=pass log=$out/$tool.$program.log
      on_device timeout 900 "$sanitizer" --tool $tool --error-exitcode 9 "$tests/$program" \
        "--gtest_filter=$filter" >"$log" 2>&1 || verdict=fail
      grep -q '^\[  PASSED  \] [1-9]' "$log" || verdict=fail
      result sanitizer "$tool.$program" $verdict $start "$(summary_of "$log"); $(grep -E 'SUMMARY' "$log" | tail -n 1)"
    done
  done <<'SAMPLE'
test_codegen_tile_cuda *OrdersSizesAndTypes
test_codegen_attention_cuda *
test_codegen_loops_cuda *
SAMPLE
}

run_bench() {
  local start=$SECONDS verdict=measured trouble
  on_device timeout 1800 "$bin/lfarm-bench" gpu ${quick:+--quick} >"$out/bench.jsonl" 2>"$out/bench.log" || verdict=fail
  [ -s "$out/bench.jsonl" ] || verdict=fail
  trouble=$(tail -n 1 "$out/bench.log")
  result bench micro-benchmarks $verdict $start "$(grep -c . "$out/bench.jsonl") lines in bench.jsonl${trouble:+; $trouble}"
}

# search_model FILE: prints NAME's best plan; its JSON goes to DIR.
search_model() {
  local name start=$SECONDS unsearched
  name=$(basename "$1" .pt2)
  if on_device timeout 3000 "$bin/lfarm" submit "$1" --device cuda --budget "${LFARM_BUDGET:-32}" \
    --json >"$out/$name.json" 2>"$out/$name.log"; then
    # A search of one candidate compares it with nothing and says 0.
    unsearched=$(microseconds_in "$out/$name.json" baseline)
    [ "$unsearched" != 0.0 ] || unsearched=
    result models "$name" measured $start \
      "lfarm $(microseconds_in "$out/$name.json" best) us${unsearched:+, unsearched $unsearched us}"
  else
    result models "$name" fail $start "$(tail -n 1 "$out/$name.log")"
  fi
}
microseconds_in() {
  sed -n "s/.*\"$2_ns\":\([0-9]*\).*/\1/p" "$1" | awk '{ printf "%.1f", $1 / 1000 }'
}

run_models() {
  local folder=$LFARM_STATE/graphs file start code=0
  mkdir -p "$folder"
  for file in "$LFARM_MODELS"/*.pt2 "$LFARM_MODELS"/*.pt2.xz; do
    case $file in
      *'*'*) ;;
      *.xz) xz -dc "$file" >"$folder/$(basename "$file" .xz)" ;;
      *) cp "$file" "$folder/" ;;
    esac
  done
  set -- "$folder"/*.pt2
  [ -e "$1" ] || { result models models fail $SECONDS "no graphs in $LFARM_MODELS"; return; }
  for file in "$@"; do search_model "$file"; done
  start=$SECONDS
  # PyTorch keeps the libraries it came with.
  timeout 3000 python3 "$here/torch_peers.py" "$@" >"$out/torch.jsonl" 2>"$out/torch.log" </dev/null || code=$?
  case $code in
    0) result models torch measured $start "$(grep -c . "$out/torch.jsonl") lines in torch.jsonl" ;;
    3) result models torch skipped $start "$(tail -n 1 "$out/torch.log")" ;;
    *) result models torch fail $start "exit code $code; $(tail -n 1 "$out/torch.log")" ;;
  esac
}

# Language models by eager PyTorch, torch.compile with and without lfarm, and lfarm alone.
run_llm() {
  local start=$SECONDS verdict=measured lines errors trouble
  python3 -c 'import torch, transformers' 2>/dev/null || {
    result llm llm skipped $start "python3 has no torch with transformers"
    return
  }
  # Options are words.
  # shellcheck disable=SC2086
  on_device env PYTHONPATH="$package" LFARM_LIBRARY="$library" LFARM_BIN="$bin" \
    "$bin/lfarm-bench" llm --device cuda --json --out "$out/llm-runs" ${quick:+--mode quick} \
    ${LFARM_LLM:-} >"$out/llm.jsonl" 2>"$out/llm.log" || verdict=fail
  lines=$(grep -c '"prompt_tokens"' "$out/llm.jsonl")
  errors=$(grep -c '"error"' "$out/llm.jsonl")
  [ "$lines" -gt "$errors" ] || verdict=fail
  trouble=$(sed -n 's/.*"error":"\([^"]*\)".*/\1/p' "$out/llm.jsonl" | head -n 1)
  result llm llm $verdict $start "$lines rows in llm.jsonl${trouble:+, $errors without times: $trouble}"
}

is_asked tests && run_tests
if is_asked cases; then
  check_cases bundled_cases "$cases"
  [ -z "${LFARM_CASES:-}" ] || check_cases more_cases "$LFARM_CASES"
fi
is_asked python && run_python
is_asked sanitizer && sanitize
is_asked bench && run_bench
if is_asked models; then
  if [ -n "${LFARM_MODELS:-}" ]; then
    run_models
  else
    result models models skipped $SECONDS "LFARM_MODELS names no folder of graphs"
  fi
fi
is_asked llm && run_llm
finish $unclean
