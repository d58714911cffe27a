"""Values of settings, as written in the environment and as passed to child processes."""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, SecretStr


def split_words(value: Any) -> Any:
    """Parses a list from an environment variable: separated by commas, or a JSON array if names contain commas."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError(f"a value that begins with [ must be a JSON array: {error}") from None
    return [part.strip() for part in value.split(",") if part.strip()]


def parsed_object(value: Any) -> Any:
    """Parses an object from an environment variable, which has it as JSON."""
    return json.loads(value) if isinstance(value, str) else value


def revealed(value: Any) -> Any:
    match value:
        case SecretStr():
            return value.get_secret_value()
        case Path():
            return str(value)
        case dict():
            return {name: revealed(member) for name, member in value.items()}
        case tuple():
            return [revealed(member) for member in value]
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(split_words)]
