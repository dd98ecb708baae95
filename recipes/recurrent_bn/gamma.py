"""`ds2 train` of a BN-LSTM that begins with another gamma than the paper's 0.1.

python recipes/recurrent_bn/gamma.py 0.3 recipes/ablations/base.toml --set model.cell=bn-lstm --output RUN
"""

import sys

from ds2.cli.main import main
from ds2.model import normalization

if __name__ == "__main__":
    normalization.STEP_GAMMA = float(sys.argv[1])
    sys.exit(main(["train", *sys.argv[2:]]))
