"""The secrets of the settings, which logs must hide."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr

from icecore.known_secrets import known_secrets
from icecore.publishers.sink_settings import KafkaSink, NatsSink
from icecore.settings import Settings

KEY = base64.b64encode(b"k" * 32).decode()
PUBLIC = {"data_dir", "embedded_state_dir", "tls_ca_file"}


def file_settings() -> Iterator[tuple[type[BaseModel], str, bool]]:
    """Each setting that is a path or a list of paths; and whether it is a list."""
    for model in (Settings, NatsSink, KafkaSink):
        for name, field in model.model_fields.items():
            if "Path" in str(field.annotation) and name not in PUBLIC:
                yield model, name, "tuple" in str(field.annotation)


FILE_SETTINGS = [(model, name, many) for model, name, many in file_settings() if name != "local_warehouse_roots"]


def test_the_files_of_secrets_are_found() -> None:
    names = {name for _, name, _ in FILE_SETTINGS}
    assert {"secret_key_file", "secret_key_files_previous", "credentials_file", "password_file", "tls_key_file"} <= names


@pytest.mark.parametrize(("model", "name", "many"), FILE_SETTINGS, ids=lambda value: value if isinstance(value, str) else "")
def test_the_content_of_a_file_is_secret(tmp_path: Path, model: type[BaseModel], name: str, many: bool) -> None:
    """Also of a setting that is renamed or added."""
    (tmp_path / "f").write_text(f"password={KEY}\n" if name == "config_file" else f"{KEY}\n", encoding="utf-8")
    file = tmp_path / "f"
    values: dict[str, Any] = {name: (file,) if many else file}
    assert KEY in known_secrets(model.model_construct(**values))


def test_keys_that_were_read_earlier_are_secret(tmp_path: Path) -> None:
    """Although their file has another content by now."""
    assert {KEY, repr(KEY)[1:-1]} <= known_secrets(Settings(secret_key_file=tmp_path / "missing"), [KEY])


@pytest.mark.parametrize("name", ["password", "sslpassword", "passfile"])
def test_what_is_secret_in_a_database_url_is_found(name: str) -> None:
    found = known_secrets(Settings(database_url=SecretStr(f"host=h dbname=public-name {name}=hunter2")))
    assert "hunter2" in found
    assert "public-name" not in found
