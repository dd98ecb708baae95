#!/usr/bin/env bash
# Everything that waits for a GPU: correctness first, then times. Writes one Markdown table and one JSON for each.
#     benchmarks/gpu_all.sh [folder for the results, by default benchmarks/gpu/results]
set -euo pipefail
cd "$(dirname "$0")/.."
results="${1:-benchmarks/gpu/results}"
mkdir -p "$results"
python -m pytest tests/ctc tests/model/test_slots.py tests/model/test_half_linear.py
for script in benchmarks/gpu/*.py; do
    name="$(basename "$script" .py)"
    python "$script" --output "$results/$name.json" | tee "$results/$name.md"
done
