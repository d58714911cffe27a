"""Files that settings of sinks name: a message says why one cannot be read, and shows neither its path nor its bytes."""

from pathlib import Path

import pytest

from icecore.publishers.setting_files import read_secret, require_file
from icecore.publishers.sink import SinkError


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    said = "the file of the setting secret_file cannot be read: No such file or directory"
    for read in (read_secret, require_file):
        with pytest.raises(SinkError) as refused:
            read("secret_file", tmp_path / "hunter2")
        assert said == str(refused.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"\xff")
    with pytest.raises(SinkError) as refused:
        read_secret("secret_file", tmp_path / "secret")
    assert "the file of the setting secret_file cannot be read: it is not UTF-8 text" == str(refused.value)
