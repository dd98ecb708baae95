"""Exit codes, the same for every command; 0 means that everything was done."""

SOME_FAILED = 1  # done, except for some files
BAD_INPUT = 2  # nothing was done
INTERRUPTED = 130  # by Ctrl-C, as shells count it
