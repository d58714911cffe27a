"""Constants that the manifest process (storage/manifest_process.py) and its client (storage/manifest_reader.py) share.

A separate module, so that the process does not import what only the client needs.
"""

from typing import Literal

RESPONSE_LENGTH = ">I"

Kind = Literal["manifest-list", "manifest"]
MANIFEST_LIST: Kind = "manifest-list"
MANIFEST: Kind = "manifest"
