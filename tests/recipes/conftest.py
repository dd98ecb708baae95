"""Recipes' scripts as modules."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from helpers.scripts import import_script

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="session")
def recipe_script() -> Callable[[str], ModuleType]:
    """ "digits/prepare" -> recipes/digits/prepare.py, imported."""

    return lambda name: import_script(RECIPES / f"{name}.py")
