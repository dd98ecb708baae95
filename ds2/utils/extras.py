"""Packages that only some commands need, and the extra of pyproject.toml that brings each."""

from importlib.util import find_spec

EXTRAS = {
    "aiohttp": "remote",
    "cn2an": "train",
    "fsspec": "remote",
    "jinja2": "corpus",
    "matplotlib": "train",
    "num2words": "train",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "opentelemetry": "telemetry",
    "optuna": "train",
    "prometheus_client": "serve",
    "pyarrow": "data",
    "pyspark": "spark",
    "python_multipart": "serve",
    "s3fs": "remote",
    "sounddevice": "listen",
    "starlette": "serve",
    "tensorboard": "train",
    "tomli_w": "train",
    "uvicorn": "serve",
    "websockets": "serve",
}
REMOVABLE = ("torch", "torchaudio", "numba")  # images do without PyTorch, and without numba beside a library of kernels


def is_installed(module: str) -> bool:
    """Whether a package can be imported."""
    return find_spec(module) is not None


def need(*modules: str) -> None:
    """Checks up front that packages are installed which long work needs at its end.

    Raises:
        ModuleNotFoundError: as the import would.
    """
    for module in modules:
        if not is_installed(module):
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)


def hint(error: ModuleNotFoundError) -> str:
    """A line that says what to install.

    Raises:
        ModuleNotFoundError: the error itself, where no extra holds the package.
    """
    package = (error.name or "").partition(".")[0]
    if package in REMOVABLE:
        return f"{package} is not installed; pip install {package}"
    if package not in EXTRAS:
        raise error
    return f"{package} is not installed; {install_line(EXTRAS[package])}"


def install_line(extra: str) -> str:
    """How to install the packages of an extra."""
    return f"in ds2's checkout, pip install -c constraints.txt '.[{extra}]'"
