"""Exit codes, the same for every command; 0 is done."""

SOME_FAILED = 1  # done, but some files could not be dealt with
BAD_INPUT = 2  # nothing was done
INTERRUPTED = 130  # as shells count it
