"""python -m ds2, and the script `ds2`. It imports nothing before Ctrl-C is handled."""

import gc
import sys

INTERRUPTED = 130  # as in ds2.cli.exits, which cannot be imported yet


def main() -> int:
    """Runs the command line; Ctrl-C ends it quietly, also while its modules are imported."""
    try:
        from ds2.cli.main import main

        code = main()
        gc.freeze()  # or Python looks through all objects once more before it exits: 0.1 s
        return code
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
