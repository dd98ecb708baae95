"""Python in which torch is not installed."""

WITHOUT_TORCH = """
import sys

class Without:
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, *arguments):
        return None if name.partition(".")[0] == "torch" else self.finder.find_spec(name, *arguments)

sys.meta_path = [Without(finder) for finder in sys.meta_path]
"""
