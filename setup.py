"""The packages: those of ds2/, and the CUDA sources of csrc/ as package data of ds2.csrc."""

from setuptools import find_namespace_packages, setup

packages = find_namespace_packages(include=["ds2*"], exclude=["*__pycache__*"])
setup(packages=[*packages, "ds2.csrc"], package_dir={"ds2.csrc": "csrc"})
