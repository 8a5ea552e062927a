"""The version: its one place, from which the build reads it."""

__all__ = ["__version__"]

__version__ = "0.2.0.dev1"
