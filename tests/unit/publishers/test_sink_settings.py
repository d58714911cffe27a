"""Sinks in the settings: from the file and the environment, and the errors for invalid ones."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from icecore.publishers.sink_settings import KafkaSink, NatsSink, StandardOutputSink, WebhookSink
from icecore.settings import Settings, SettingsError, load_settings, settings_from_json
from icecore.sinks import publishers


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ICECORE_CONFIG", raising=False)


def in_environment(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Settings:
    """The settings with these variables, given without ICECORE_SINKS__."""
    for name, value in variables.items():
        monkeypatch.setenv(f"ICECORE_SINKS__{name}", value)
    return load_settings()


def test_sinks_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names are lower case, lists have commas, objects are JSON, and texts stay texts."""
    settings = in_environment(
        monkeypatch,
        LAKE__TYPE="nats", LAKE__URL="nats://a:1, nats://b:2", LAKE__STREAM="S", LAKE__TOKEN="12345", LAKE__TYPES="table.*,view.*",
        K__TYPE="kafka", K__URL="a:1", K__TOPIC="t", K__CONFIG='{"sasl.mechanism": "PLAIN"}', K__PASSWORD="true",
        OUT__TYPE="stdout",
    )  # fmt: skip
    lake, k = settings.sinks["lake"], settings.sinks["k"]
    assert isinstance(lake, NatsSink)
    assert isinstance(k, KafkaSink)
    assert (("nats://a:1", "nats://b:2"), "S", SecretStr("12345"), ("table.*", "view.*")) == (lake.url, lake.stream, lake.token, lake.types)
    assert (("a:1",), "t", {"sasl.mechanism": "PLAIN"}, SecretStr("true")) == (k.url, k.topic, k.config, k.password)
    assert isinstance(settings.sinks["out"], StandardOutputSink)


def test_a_name_with_a_comma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment, a list may be a JSON array."""
    file = tmp_path / "icecore.toml"
    file.write_text('[sinks.a]\ntype = "stdout"\nnamespaces = ["north, south", "[x]"]\n[sinks.b]\ntype = "stdout"\n')
    monkeypatch.setenv("ICECORE_SINKS__B__NAMESPACES", '["north, south", "[x]"]')
    sinks = load_settings(file).sinks
    assert ("north, south", "[x]") == sinks["a"].namespaces == sinks["b"].namespaces
    with pytest.raises(SettingsError, match=r"B__NAMESPACES.*JSON array"):
        in_environment(monkeypatch, B__TYPE="stdout", B__NAMESPACES="[north")


def test_sinks_from_the_file_and_over_it_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink may be in both, for example with its secret in the environment."""
    file = tmp_path / "icecore.toml"
    file.write_text('[sinks.hook]\ntype = "webhook"\nurl = "https://a.example/x"\nnamespaces = ["a.b"]\nheaders = {X-Team = "lake"}\n')
    monkeypatch.setenv("ICECORE_SINKS__HOOK__SECRET", "s3cret")
    hook = load_settings(file).sinks["hook"]
    assert isinstance(hook, WebhookSink)
    assert ("https://a.example/x", ("a.b",), SecretStr("s3cret")) == (hook.url, hook.namespaces, hook.secret)
    assert {"X-Team": SecretStr("lake")} == hook.headers


def test_settings_travel_to_the_publishing_process_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a pipe, with secrets in clear text."""
    settings = in_environment(
        monkeypatch, H__TYPE="webhook", H__URL="http://x", H__SECRET="s3cret", H__HEADERS='{"Authorization": "Bearer t"}'
    )
    assert settings.sinks == settings_from_json(settings.to_json()).sinks
    assert "s3cret" not in repr(settings)
    assert "Bearer" not in repr(settings)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"X__TYPE": "rabbit"}, "ICECORE_SINKS__X__TYPE: must be one of nats, kafka, webhook, stdout"),
        ({"X__TYP": "nats"}, r"Unknown setting ICECORE_SINKS__X__TYP; did you mean ICECORE_SINKS__X__TYPE\?$"),
        ({"LAKE__STRAEM": "s"}, r"Unknown setting ICECORE_SINKS__LAKE__STRAEM; did you mean ICECORE_SINKS__LAKE__STREAM\?$"),
        ({"X__TYPE": "nats"}, "ICECORE_SINKS__X__URL: is required"),
        ({"X__TYPE": "nats", "X__URL": "http://a"}, "ICECORE_SINKS__X__URL: url must be one or more of nats://"),
        ({"X__TYPE": "stdout", "X__STREAM": "S"}, "ICECORE_SINKS__X__STREAM: Extra inputs"),
        ({"X__TYPE": "stdout", "X__TYPES": "tabel.*"}, r"ICECORE_SINKS__X: types: 'tabel"),
        ({"X__TYPE": "webhook", "X__URL": "https://a"}, "secret or secret_file is required"),
        ({"X__TYPE": "webhook", "X__URL": "https://a", "X__SECRET": "s", "X__SECRET_FILE": "f"}, "secret and secret_file are both set"),
        ({"X__TYPE": "webhook", "X__URL": "ftp://a", "X__SECRET": "s"}, "ICECORE_SINKS__X__URL"),
        ({"X__TYPE": "kafka", "X__URL": "a:1", "X__CONFIG": "{"}, "ICECORE_SINKS__X__CONFIG"),
        (
            {"X__TYPE": "nats", "X__URL": "nats://a:1", "X__DUPLICATE_WINDOW_SECONDS": "inf"},
            "X__DUPLICATE_WINDOW_SECONDS: must be a finite",
        ),
        ({"X Y__TYPE": "stdout"}, "ICECORE_SINKS__X Y"),
    ],
)
def test_what_is_said_of_a_wrong_sink(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], said: str) -> None:
    """The message names the variable and the permitted values."""
    with pytest.raises(SettingsError, match=said):
        in_environment(monkeypatch, **variables)


STDOUT, NATS, KAFKA = {"TYPE": "stdout"}, {"TYPE": "nats", "URL": "nats://a:1"}, {"TYPE": "kafka", "URL": "a:1"}


@pytest.mark.parametrize(
    ("sink", "name", "accepted", "refused"),
    [
        (STDOUT, "EVENT_BYTES_MAX", ["4096", "268435456"], ["4095", "268435457"]),
        (STDOUT, "TIMEOUT_SECONDS", ["0.001", "600"], ["0", "600.001"]),
        (NATS, "REPLICAS", ["1", "5"], ["0", "6"]),
        (NATS, "DUPLICATE_WINDOW_SECONDS", ["0.001"], ["0"]),
        (NATS, "STREAM", ["s" * 255], ["s" * 256]),
        (NATS, "SUBJECT", ["s" * 200], ["s" * 201]),
        (KAFKA, "TOPIC", ["t" * 230], ["t" * 231]),
        (KAFKA, "CHECKPOINT_TOPIC", ["t" * 249], ["t" * 250]),
        (KAFKA, "PARTITIONS", ["1"], ["0"]),
        (KAFKA, "REPLICAS", ["1"], ["0"]),
    ],
)
def test_numbers_and_lengths_have_bounds(
    monkeypatch: pytest.MonkeyPatch, sink: dict[str, str], name: str, accepted: list[str], refused: list[str]
) -> None:
    """Both limits of each, and the values just beyond."""
    fixed = {f"X__{field}": value for field, value in sink.items()}
    for value in accepted:
        in_environment(monkeypatch, **fixed, **{f"X__{name}": value})
    for value in refused:
        with pytest.raises(SettingsError, match=f"ICECORE_SINKS__X__{name}"):
            in_environment(monkeypatch, **fixed, **{f"X__{name}": value})


def test_a_wrong_secret_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message may be logged."""
    with pytest.raises(SettingsError) as refused:
        in_environment(monkeypatch, X__TYPE="webhook", X__URL="https://a", X__SECRET="hunter2", X__SECRET_FILE="/x")
    assert "hunter2" not in str(refused.value)


def test_a_file_with_an_unknown_member_is_refused(tmp_path: Path) -> None:
    """The message has the nearest known name."""
    file = tmp_path / "icecore.toml"
    file.write_text('[sinks.a]\ntype = "stdout"\nmodus = "binary"\n')
    with pytest.raises(SettingsError, match=r"Unknown setting sinks\.a\.modus in .*; did you mean sinks\.a\.mode\?$"):
        load_settings(file)


def test_two_sinks_on_one_stream_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would replace each other as leaders endlessly."""
    settings = in_environment(monkeypatch, A__TYPE="nats", A__URL="nats://x:1", B__TYPE="nats", B__URL="nats://x:1")
    with pytest.raises(SettingsError, match="a and b have the same destination"):
        publishers(settings.model_copy(update={"database_url": SecretStr("postgresql://x")}))


@pytest.mark.parametrize(("type_", "target"), [("nats", "STREAM"), ("kafka", "TOPIC")])
def test_two_sinks_of_one_broker_have_their_own_targets(monkeypatch: pytest.MonkeyPatch, type_: str, target: str) -> None:
    fields = {f"{name}__{field}": value for name in "AB" for field, value in (("TYPE", type_), ("URL", "nats://x:1"), (target, name))}
    if type_ == "kafka":
        fields |= {"A__URL": "x:1", "B__URL": "x:1"}
    settings = in_environment(monkeypatch, **fields)
    assert ["a", "b"] == [*publishers(settings.model_copy(update={"database_url": SecretStr("postgresql://x")}))]
