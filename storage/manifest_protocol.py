"""What the process that reads manifests (storage/manifest_process.py) and those who ask it (storage/manifest_reader.py) both know.

By itself, so that the process is started without importing what the asking side needs.
"""

from typing import Literal

ANSWER_LENGTH = ">I"

Kind = Literal["manifest-list", "manifest"]
MANIFEST_LIST: Kind = "manifest-list"
MANIFEST: Kind = "manifest"
