"""Recipes' scripts as modules."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="session")
def recipe_script() -> Callable[[str], ModuleType]:
    """ "digits/prepare" -> recipes/digits/prepare.py, imported."""

    def load(name: str) -> ModuleType:
        module_name = f"recipe_{name.replace('/', '_')}"
        spec = importlib.util.spec_from_file_location(module_name, RECIPES / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module  # where dataclasses look themselves up
        spec.loader.exec_module(module)
        return module

    return load
