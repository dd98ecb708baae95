#!/usr/bin/env bash
# See recipes/run.sh.
exec "$(dirname "$0")/../run.sh" voxforge "test_american test_commonwealth test_european test_indian" "$@"
