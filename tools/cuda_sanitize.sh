#!/usr/bin/env bash
# Runs the tools of compute-sanitizer over the tests of the CUDA library, on a reduced list of cases: one line per run.
#   tools/cuda_sanitize.sh [DIRECTORY]     with the cuda_*_test programs (default: build/release/tests/cuda)
# initcheck does not see bulk stores from shared memory (TMA), by which the Hopper kernels and cuBLASLt write their
# results, and is therefore left to the portable kernels. racecheck does not come to an end over the Hopper kernels,
# whose warps wait for each other at barriers in memory: a test of one second takes it minutes. Errors that CUDA's
# functions return are not counted: tests ask for more memory than there is.
set -uo pipefail
tests=${1:-build/release/tests/cuda}
command -v compute-sanitizer > /dev/null || { echo "cuda_sanitize: compute-sanitizer is not on the PATH" >&2; exit 1; }
export HEADWAY_TEST_REDUCED=1 HEADWAY_TEST_RANDOM=40
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0

# check TOOL KERNELS TEST [FILTER]: KERNELS is `tuned` or `portable`.
check() {
  local tool=$1 kernels=$2 test=$3 filter=${4:-*} start=$SECONDS options=()
  [[ $tool == memcheck ]] && options=(--report-api-errors no)
  HEADWAY_CUDA_KERNELS=$kernels compute-sanitizer --tool "$tool" "${options[@]}" --error-exitcode 9 "$tests/cuda_$test" \
    --gtest_filter="$filter" > "$log" 2>&1
  local result=$?
  [[ $result -eq 0 || $result -eq 77 ]] || { status=1; grep -m 40 '^=========\|FAILED' "$log"; }
  echo "$tool, $kernels kernels, $test: exit $result, $(grep 'SUMMARY' "$log" | tail -1 | sed 's/^=* *//')," \
    "$(grep -c '^\[       OK' "$log") tests, $((SECONDS - start)) s"
}

for test in attention_test copies_test decoding_test train_test ops_test; do check memcheck tuned $test; done
check memcheck portable attention_test
check initcheck portable attention_test
for kernels in tuned portable; do check synccheck $kernels attention_test; done
check synccheck tuned decoding_test
check racecheck tuned decoding_test
check racecheck portable attention_test
exit "$status"
