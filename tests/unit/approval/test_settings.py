"""Settings of approval hooks from the file and the environment; invalid ones are refused by name, without secrets."""

from pathlib import Path

import pytest

from icecore.approval.settings import PluginHook, WebhookHook
from icecore.settings import SettingsError, load_settings, settings_from_json

FILE = """
[hooks.contract]
type = "plugin"
plugin = "schema-contract"
options = { hold_seconds = 60 }

[hooks.owners]
type = "webhook"
url = "https://owners.example/"
secret = "from the file"
operations = ["dropTable", "rename*"]
"""


def test_hooks_are_read_from_the_file_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment takes precedence over the file. Lists have commas, objects are JSON, numbers are text. All values survive the
    pipe.
    """
    path = tmp_path / "icecore.toml"
    path.write_text(FILE)
    monkeypatch.setenv("ICECORE_HOOKS__OWNERS__SECRET", "from the environment")
    monkeypatch.setenv("ICECORE_HOOKS__OWNERS__NAMESPACES", "sales, hr")
    monkeypatch.setenv("ICECORE_HOOKS__OWNERS__REFUSAL_STATUS", "403")
    monkeypatch.setenv("ICECORE_HOOKS__THIRD__TYPE", "plugin")
    monkeypatch.setenv("ICECORE_HOOKS__THIRD__PLUGIN", "other")
    monkeypatch.setenv("ICECORE_HOOKS__THIRD__OPTIONS", '{"a": 1}')
    settings = load_settings(path)
    contract, owners, third = settings.hooks["contract"], settings.hooks["owners"], settings.hooks["third"]
    assert isinstance(contract, PluginHook)
    assert isinstance(owners, WebhookHook)
    assert isinstance(third, PluginHook)
    assert ({"hold_seconds": 60}, {"a": 1}) == (contract.options, third.options)
    assert (("dropTable", "rename*"), ("sales", "hr"), 403) == (owners.operations, owners.namespaces, owners.refusal_status)
    assert owners.secret is not None
    assert "from the environment" == owners.secret.get_secret_value()
    assert "from the environment" not in repr(settings)
    assert settings == settings_from_json(settings.to_json())
    assert (5.0, "refuse", 409) == (contract.timeout_seconds, contract.on_failure, contract.refusal_status)


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ({"TYPE": "plugin"}, "ICECORE_HOOKS__X__PLUGIN: is required"),
        ({"TYPE": "script"}, "ICECORE_HOOKS__X__TYPE: must be one of plugin, webhook"),
        ({"TYPE": "webhook", "URL": "https://x"}, "secret or secret_file is required"),
        ({"TYPE": "webhook", "URL": "ftp://x", "SECRET": "hidden"}, "ICECORE_HOOKS__X__URL"),
        ({"TYPE": "plugin", "PLUGIN": "a", "ON_FAILURE": "ignore"}, "ICECORE_HOOKS__X__ON_FAILURE"),
        ({"TYPE": "plugin", "PLUGIN": "a", "REFUSAL_STATUS": "500"}, "ICECORE_HOOKS__X__REFUSAL_STATUS"),
        ({"TYPE": "plugin", "PLUGIN": "a", "TIMEOUT_SECONDS": "0"}, "ICECORE_HOOKS__X__TIMEOUT_SECONDS"),
        ({"TYPE": "plugin", "PLUGIN": "a", "TIMEOUT_SECONDS": "60.001"}, "ICECORE_HOOKS__X__TIMEOUT_SECONDS"),
        ({"TYPE": "plugin", "PLUGIN": "a", "URL": "https://x"}, "ICECORE_HOOKS__X__URL"),
        (
            {"TYPE": "plugin", "PLUGIN": "a", "OPERATIONS": "updateTable, droptable"},
            "operations: 'droptable' matches none of activateW",
        ),
        ({"TYPE": "plugin", "PLUGIN": "a", "OPERATIONS": "erase*"}, "operations: 'erase*' matches none"),
        ({"TYPE": "plugin", "PLUGIN": "a", "OPERATIONS": "loadTable"}, "operations: 'loadTable' matches none"),
        ({"TYPE": "plugin", "PLUGIN": "a", "OPERATIONS": '[""]'}, "operations: '' matches none"),
        ({"TYPE": "plugin", "PLUGIN": "a", "NAMESPACES": "sales.*"}, "namespaces: 'sales.*'"),
        ({"TYPE": "plugin", "PLUGIN": "a", "WAREHOUSES": '["demo", ""]'}, "warehouses: ''"),
        (
            {"TYPE": "plugin", "PLUGIN": "a", "TIMEOUT": "3"},
            "Unknown setting ICECORE_HOOKS__X__TIMEOUT; did you mean ICECORE_HOOKS__X__TIMEOUT_SECONDS?",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(hook: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message contains no value."""
    for name, value in hook.items():
        monkeypatch.setenv(f"ICECORE_HOOKS__X__{name}", value)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert message in str(refused.value)
    assert "hidden" not in str(refused.value)
