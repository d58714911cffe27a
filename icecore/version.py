"""The version of the program, as it is installed."""

from importlib.metadata import PackageNotFoundError, version


def icecore_version() -> str:
    """For example `1.2.0`; where the program runs from a folder, that it is not installed."""
    try:
        return version("icecore")
    except PackageNotFoundError:
        return "unknown (not installed)"
