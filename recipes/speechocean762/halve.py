"""Writes a bundle with its weights in half precision: python recipes/speechocean762/halve.py BUNDLE HALF"""

import sys
from dataclasses import replace

from ds2.bundle import Bundle
from ds2.cli.recipe_scripts import run_script


def main() -> None:
    bundle = Bundle.load(sys.argv[1])
    weights = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in bundle.weights.items()}
    replace(bundle, weights=weights).save(sys.argv[2])


if __name__ == "__main__":
    run_script(main)
