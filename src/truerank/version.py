"""The installed version."""

from importlib.metadata import PackageNotFoundError, version

__all__ = ["__version__"]

try:
    __version__ = version("truerank")
except PackageNotFoundError:  # run from a source tree without installation
    __version__ = "0+unknown"
