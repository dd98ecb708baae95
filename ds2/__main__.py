"""python -m ds2, as `ds2`."""

import sys

from ds2.cli import main

sys.exit(main())
