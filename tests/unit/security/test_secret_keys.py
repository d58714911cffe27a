"""Keys of the secret store: their sources, and what they reveal."""

import base64
import pickle
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag

from icecore.data_folder import DataFolder
from icecore.log_database import embedded_settings
from icecore.secret_keys import secret_store
from icecore.security.secrets import KEY_BYTES, SecretKey, SecretKeyError
from icecore.settings import Settings, SettingsError

KEY = bytes(range(KEY_BYTES))


def test_a_key_opens_what_it_closed() -> None:
    """Only with the same binding. No two ciphertexts are equal."""
    key = SecretKey(KEY)
    nonce, ciphertext = key.encrypt(b"secret", b"here")
    assert b"secret" == SecretKey(KEY).decrypt(nonce, ciphertext, b"here")
    assert b"secret" not in ciphertext
    assert (nonce, ciphertext) != key.encrypt(b"secret", b"here")
    with pytest.raises(InvalidTag):
        key.decrypt(nonce, ciphertext, b"there")


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_both_alphabets_of_base64_are_read(encode: object) -> None:
    """Standard and URL-safe."""
    key = bytes([0xFB, 0xFF]) * 16
    text = encode(key).decode()  # type: ignore[operator]  # one of the two functions above
    assert SecretKey(key).id == SecretKey.from_base64(f" {text}\n").id


@pytest.mark.parametrize(
    "text", ["", "x", "password", base64.b64encode(KEY[:-1]).decode(), base64.b64encode(KEY + b"x").decode(), "é" * 44]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    """A short or malformed key is refused, and not repeated in the message."""
    with pytest.raises(SecretKeyError) as refusal:
        SecretKey.from_base64(text)
    assert not text or text not in str(refusal.value)


def test_a_key_shows_only_its_id() -> None:
    """Neither printing nor pickling shows the key."""
    key = SecretKey(KEY)
    assert f"SecretKey(id={key.id!r})" == repr(key)
    assert 16 == len(key.id)
    assert key.id != SecretKey(bytes(KEY_BYTES)).id
    with pytest.raises(TypeError):
        pickle.dumps(key)


@pytest.mark.parametrize("content", [b"", b"\xff" * 32, b"x" * 2_000, b"\0" * 44])
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, content: bytes) -> None:
    """Raw bytes, a long file and an empty one."""
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(SecretKeyError):
        SecretKey.from_file(path)


@pytest.mark.parametrize("setting", ["secret_key", "secret_key_file", "secret_key_files_previous"])
@pytest.mark.parametrize("given", ["not base64, canary", base64.b64encode(b"canary").decode(), "canary" * 100])
def test_what_stands_in_the_place_of_a_key_is_not_shown(setting: str, given: str) -> None:
    """A key instead of its file, or a password instead of a key: the message names the setting without the value."""
    values: dict[str, Any] = {"secret_key": base64.b64encode(b"k" * 32).decode()} if setting == "secret_key_files_previous" else {}
    settings = Settings(**values, **{setting: (given,) if setting == "secret_key_files_previous" else given})
    with pytest.raises(SettingsError) as refused:
        secret_store(settings)
    assert f"ICECORE_{setting.upper()}" in str(refused.value)
    assert given not in str(refused.value)


def test_a_file_that_holds_no_key_is_not_named(tmp_path: Path) -> None:
    """The path is the value of a setting."""
    file = tmp_path / "canary"
    file.write_text("é")
    with pytest.raises(SettingsError) as refused:
        secret_store(Settings(secret_key_file=file))
    assert "canary" not in str(refused.value)


def test_a_key_of_the_settings_goes_before_the_one_of_the_data_folder(tmp_path: Path) -> None:
    """Otherwise a restore with the operator's key could not decrypt the credentials. No other key is made."""
    (tmp_path / "own").write_text(base64.b64encode(KEY).decode())
    (tmp_path / "data").mkdir()
    found = embedded_settings(Settings(secret_key_file=tmp_path / "own"), DataFolder(tmp_path / "data"), "host=x dbname=y")
    assert (tmp_path / "own", []) == (found.secret_key_file, [*(tmp_path / "data").iterdir()])


@pytest.mark.parametrize("content", ["garbage", "", "A" * 22 + "=="])
def test_the_key_file_of_a_data_folder_is_named(tmp_path: Path, content: str) -> None:
    """Its path is no value of a setting, and nobody set ICECORE_SECRET_KEY_FILE."""
    settings = embedded_settings(Settings(), DataFolder(tmp_path), "host=x dbname=y")
    (tmp_path / "secret.key").write_text(content)
    with pytest.raises(SettingsError) as refused:
        secret_store(settings)
    assert str(refused.value).startswith(f"{tmp_path}/secret.key: the secret key ")
    assert "restore it from the backup" in str(refused.value)


def test_a_missing_key_file_of_a_data_folder_is_named(tmp_path: Path) -> None:
    """With what to do. It is not made, because stored credentials may need the one that is missing."""
    settings = embedded_settings(Settings(), DataFolder(tmp_path), "host=x dbname=y")
    with pytest.raises(SettingsError) as refused:
        secret_store(settings)
    assert str(refused.value).startswith(f"The key file {tmp_path}/secret.key is missing")
    for part in ("restore it from the backup", "ICECORE_SECRET_KEY_FILE", "icecore warehouse credential"):
        assert part in str(refused.value)
    assert [] == [*tmp_path.iterdir()]


def test_the_key_file_of_another_database_is_named_by_its_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a move from the embedded Postgres, which leaves the file in the data folder."""
    monkeypatch.chdir(tmp_path)
    settings = Settings(database_url="postgresql://h/d", secret_key_file=".icecore/secret.key")
    with pytest.raises(SettingsError, match="ICECORE_SECRET_KEY_FILE: the file cannot be read: No such file or directory"):
        secret_store(settings)
