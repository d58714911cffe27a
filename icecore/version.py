"""The version of the program, as it is installed."""

from importlib.metadata import PackageNotFoundError, version


def icecore_version() -> str:
    """For example `1.2.0`; `unknown (not installed)` if the program runs from a folder."""
    try:
        return version("icecore")
    except PackageNotFoundError:
        return "unknown (not installed)"
