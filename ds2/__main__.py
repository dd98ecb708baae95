"""python -m ds2, and the script `ds2`. It imports nothing before Ctrl-C is handled."""

import sys

INTERRUPTED = 130  # as in ds2.cli.exits, which cannot be imported yet


def main() -> int:
    """Runs the command line; Ctrl-C ends it quietly, also while its modules are imported."""
    try:
        from ds2.cli.main import main

        return main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
