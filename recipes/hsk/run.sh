#!/usr/bin/env bash
# See recipes/run.sh.
exec "$(dirname "$0")/../run.sh" hsk "test" "$@"
