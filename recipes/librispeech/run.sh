#!/usr/bin/env bash
# See recipes/run.sh.
exec "$(dirname "$0")/../run.sh" librispeech "dev dev-clean dev-other test-clean test-other" "$@"
