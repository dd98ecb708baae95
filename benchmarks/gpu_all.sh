#!/usr/bin/env bash
# Everything that waits for a GPU: correctness first, then times. Writes one Markdown table and one JSON for each; what fails is named
# at the end, and keeps nothing else from running.
#     benchmarks/gpu_all.sh [folder for the results, by default benchmarks/gpu/results]
set -uo pipefail
cd "$(dirname "$0")/.." || exit
results="${1:-benchmarks/gpu/results}"
failed=()
mkdir -p "$results"
python -m pytest tests/ctc tests/model/test_slots.py tests/model/test_half_linear.py tests/model/test_recurrent.py tests/train/test_gpu.py || failed+=(tests)
for script in benchmarks/gpu/*.py; do
    name="$(basename "$script" .py)"
    python "$script" --output "$results/$name.json" | tee "$results/$name.md" || failed+=("$name")
done
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
