"""Reads `-- name: block --` sections of .sql files."""

import re
from functools import cache
from importlib.resources import files
from typing import LiteralString, cast

_HEADING = re.compile(r"^-- name: (\w+) --$", re.MULTILINE)


@cache
def named_sql(package: str, file: str) -> dict[str, LiteralString]:
    """The blocks of `file` in `package` by name, in the order of the file.

    The texts are part of the program. This is the only cast to LiteralString.
    """
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    pieces = _HEADING.split(text)
    blocks = {name: cast(LiteralString, body.strip()) for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}
    if len(blocks) != len(pieces) // 2:
        raise ValueError(f"{package}/{file} names a block twice")
    return blocks
