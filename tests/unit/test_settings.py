"""Settings: their sources and precedence, refusals, and that no error shows a value."""

from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

import icecore.compose  # noqa: F401 - imports all jobs
from icecore.api.limits import ApiLimits
from icecore.api.origins import is_loopback
from icecore.commands.execution.leader_job import LeaderJob
from icecore.listening import check_address
from icecore.settings import Settings, SettingsError, load_settings, setting_names, settings_from_json
from icecore.storage.cloud_profiles import Endpoint
from icecore.storage.permitted_profiles import PermittedProfiles

SECRET = "aGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gISE="


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the machine's settings from the environment."""
    for name in [*setting_names(), "ICECORE_CONFIG"]:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "icecore.toml"


def test_without_any_setting_the_server_is_embedded_and_local() -> None:
    """No database, loopback, one process."""
    settings = load_settings()
    assert (None, "127.0.0.1", 8181, 1, False) == (settings.database_url, settings.host, settings.port, settings.workers, settings.insecure)
    assert Path(".icecore") == settings.data_dir
    assert timedelta(hours=24) == settings.idempotency_key_lifetime


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    file.write_text("port = 1\nworkers = 2\nlog_level = 'error'\n")
    monkeypatch.setenv("ICECORE_PORT", "3")
    monkeypatch.setenv("ICECORE_WORKERS", "4")
    settings = load_settings(file, {"port": 5, "host": None})
    assert (5, 4, "error", "127.0.0.1") == (settings.port, settings.workers, settings.log_level, settings.host)


def test_the_file_may_be_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """ICECORE_CONFIG has the same effect as --config."""
    file.write_text("port = 9\n[http]\nupdates_max = 7\n")
    monkeypatch.setenv("ICECORE_CONFIG", str(file))
    assert (9, 7) == (load_settings().port, load_settings().http.updates_max)


def test_nested_settings_join_from_file_and_environment(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Two underscores replace a dot. A group is merged, not replaced."""
    file.write_text("[http]\nupdates_max = 7\njson_depth_max = 99\n")
    monkeypatch.setenv("ICECORE_HTTP__UPDATES_MAX", "8")
    assert (8, 99) == (load_settings(file).http.updates_max, load_settings(file).http.json_depth_max)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("ICECORE_PROT", "ICECORE_PORT"), ("ICECORE_DATABASE_URI", "ICECORE_DATABASE_URL"), ("icecore_worker", "ICECORE_WORKERS")],
)
def test_an_unknown_variable_is_refused_with_the_nearest_known(monkeypatch: pytest.MonkeyPatch, name: str, nearest: str) -> None:
    """A typo must not be ignored."""
    monkeypatch.setenv(name, "1")
    with pytest.raises(SettingsError, match=f"Unknown setting {name}; did you mean {nearest}"):
        load_settings()


def test_a_variable_unlike_every_setting_is_refused_with_the_page_that_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its title, because an installed copy has no documentation."""
    monkeypatch.setenv("ICECORE_XYZZY", "1")
    with pytest.raises(SettingsError, match=r"^Unknown setting ICECORE_XYZZY; see 'Settings' in the documentation$"):
        load_settings()


def test_an_unknown_name_in_the_file_is_refused(file: Path) -> None:
    """The file has the same names."""
    file.write_text("[http]\nupdate_max = 1\n")
    with pytest.raises(SettingsError, match=r"Unknown setting http.update_max .*did you mean http.updates_max"):
        load_settings(file)


@pytest.mark.parametrize("text", ["port = ", "port = 1\nport = 2\n"])
def test_a_file_that_is_no_toml_is_refused(file: Path, text: str) -> None:
    """With the file's name and the parser's message."""
    file.write_text(text)
    with pytest.raises(SettingsError, match=r"icecore.toml is not TOML"):
        load_settings(file)


def test_a_file_that_is_not_there_is_refused(file: Path) -> None:
    """A misspelled path must not result in defaults."""
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(file)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ICECORE_PORT", "65536"),
        ("ICECORE_PORT", "x"),
        ("ICECORE_METRICS_PORT", "65536"),
        ("ICECORE_METRICS_PORT", "-1"),
        ("ICECORE_DATABASE_READ_CONNECTIONS_MAX", "4"),
        ("ICECORE_WORKERS", "0"),
        ("ICECORE_LOG_FORMAT", "xml"),
        ("ICECORE_IDEMPOTENCY_KEY_LIFETIME", "PT0S"),
        ("ICECORE_HTTP__JSON_DEPTH_MAX", "1"),
        ("ICECORE_UNSAFE_DURABILITY", "perhaps"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Every limit is checked before anything starts."""
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=f"^{name}: "):
        load_settings()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("port = 'abc'", "port in {file}: must be a whole number"),
        ("[http]\njson_depth_max = 1", "http.json_depth_max in {file}: must be at least 16"),
        ("[sinks.a]\ntype = 'nats'", "sinks.a.url in {file}: is required"),
        ("[sinks.a]\nurl = 'x'", "sinks.a.type in {file}: must be one of nats, kafka, webhook, stdout"),
        ("[sinks.'a b']\ntype = 'stdout'", "sinks.a b in {file}: the name must be lower-case letters, digits, - and _, at most 63"),
        ("[sink.a]\ntype = 'stdout'", "Unknown setting sink in {file}; did you mean sinks?"),
    ],
)
def test_a_wrong_value_of_the_file_is_named_as_there(file: Path, text: str, said: str) -> None:
    """With the file."""
    file.write_text(text)
    with pytest.raises(SettingsError) as refused:
        load_settings(file)
    assert str(refused.value).startswith(said.format(file=file))


def test_a_wrong_variable_that_hides_a_value_of_the_file_is_named(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """The environment takes precedence."""
    file.write_text("port = 1")
    monkeypatch.setenv("ICECORE_PORT", "abc")
    with pytest.raises(SettingsError, match=r"^ICECORE_PORT: must be a whole number"):
        load_settings(file)


def test_settings_that_contradict_each_other_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sources for one key; a default page size above the maximum."""
    monkeypatch.setenv("ICECORE_PAGE_SIZE_DEFAULT", "20000")
    with pytest.raises(SettingsError, match="ICECORE_PAGE_SIZE_DEFAULT is larger than ICECORE_PAGE_SIZE_MAX"):
        load_settings()
    monkeypatch.delenv("ICECORE_PAGE_SIZE_DEFAULT")
    monkeypatch.setenv("ICECORE_SECRET_KEY", SECRET)
    monkeypatch.setenv("ICECORE_SECRET_KEY_FILE", "key")
    with pytest.raises(SettingsError, match="set one of them") as refusal:
        load_settings()
    assert SECRET not in str(refusal.value)


def test_an_owner_without_a_database_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """`icecore migrate` would otherwise migrate an embedded Postgres that no setting asks for."""
    monkeypatch.setenv("ICECORE_DATABASE_OWNER_URL", "postgresql://owner:hunter2@db/icecore")
    with pytest.raises(SettingsError, match="ICECORE_DATABASE_OWNER_URL is set without ICECORE_DATABASE_URL: set both") as refusal:
        load_settings()
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("name", ["ICECORE_READ_ONLY", "ICECORE_DATABASE_POOLER_URL"])
def test_a_setting_of_a_database_without_a_database_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "true" if name == "ICECORE_READ_ONLY" else "postgresql://pooler/icecore")
    with pytest.raises(SettingsError, match=f"^{name} is set without ICECORE_DATABASE_URL: "):
        load_settings()


def test_a_file_that_is_no_text_is_refused(file: Path) -> None:
    """Without the bytes, which may be a secret."""
    file.write_bytes(b"port = 1 # \xff")
    with pytest.raises(SettingsError, match=r"icecore.toml is not UTF-8 text$"):
        load_settings(file)


def test_no_setting_shows_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings may be logged or appear in a trace."""
    monkeypatch.setenv("ICECORE_SECRET_KEY", SECRET)
    monkeypatch.setenv("ICECORE_DATABASE_URL", "postgresql://icecore:hunter2@db/icecore")
    settings = load_settings()
    assert "postgresql://icecore:hunter2@db/icecore" == settings.dsn
    for shown in (repr(settings), str(settings), settings.model_dump_json()):
        assert SECRET not in shown
        assert "hunter2" not in shown


def test_a_worker_gets_the_settings_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Including secrets, through a pipe."""
    monkeypatch.setenv("ICECORE_SECRET_KEY", SECRET)
    monkeypatch.setenv("ICECORE_DATABASE_URL", "postgresql:///x")
    monkeypatch.setenv("ICECORE_IDEMPOTENCY_KEY_LIFETIME", "PT30M")
    monkeypatch.setenv("ICECORE_SECRET_KEY_FILES_PREVIOUS", "/one:/two")
    monkeypatch.setenv("ICECORE_LOCAL_WAREHOUSE_ROOTS", "/three:/four")
    monkeypatch.setenv("ICECORE_WAREHOUSE_ENDPOINTS", "http://minio:9000, https://store.example.org/s3")
    settings = load_settings(overrides={"workers": 3})
    monkeypatch.setenv("ICECORE_PORT", "1")
    assert settings == settings_from_json(settings.to_json())
    endpoints = frozenset({Endpoint("http", "minio", 9000, ()), Endpoint("https", "store.example.org", 443, ("s3",))})
    assert PermittedProfiles((Path("/three"), Path("/four")), endpoints) == settings.permitted_profiles()


def test_every_bound_of_the_edge_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of api/limits.py without a setting could not be changed."""
    values = {"gzip_cache_bytes_max": 1, "gzip_inline_bytes_max": 2, "gzip_bytes_min": 3, "body_seconds_max": 4.0}
    assert ApiLimits() == Settings().api_limits()
    reachable = {*Settings().http.model_dump(), "body_bytes_max", "read_seconds_max", "page_size_default", "page_size_max"}
    assert {field.name for field in fields(ApiLimits)} == reachable | {"idempotency_key_lifetime"}
    for name, value in values.items():
        monkeypatch.setenv(f"ICECORE_HTTP__{name.upper()}", str(value))
    limits = load_settings().api_limits()
    assert values == {name: getattr(limits, name) for name in values}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
def test_loopback_needs_no_consent(host: str) -> None:
    """Only this machine can reach it."""
    check_address(Settings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.org", "localhost.example.org", "", "127.0.0.1.example.org"])
def test_other_addresses_need_consent(host: str) -> None:
    """Without authentication, everybody who reaches the catalog can change it."""
    assert not is_loopback(host)
    with pytest.raises(SettingsError, match=r"there is no authentication.*--insecure .*--allowed-hosts"):
        check_address(Settings(host=host))
    with pytest.raises(SettingsError, match="ICECORE_ALLOWED_HOSTS"):
        check_address(Settings(host=host, insecure=True))
    check_address(Settings(host=host, insecure=True, allowed_hosts=("catalog",)))
    check_address(Settings(host=host, insecure=True, public_url="https://catalog.example.org"))


def test_hosts_and_origins_are_lists_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment. Values that a header cannot contain are refused."""
    monkeypatch.setenv("ICECORE_ALLOWED_HOSTS", "catalog, catalog.example.org,10.0.0.1,fd00::1")
    monkeypatch.setenv("ICECORE_CORS_ORIGINS", "https://app.example.org,http://localhost:3000")
    monkeypatch.setenv("ICECORE_TRUSTED_PROXIES", "10.0.0.7, 10.1.0.0/16,fd00::/8")
    settings = load_settings()
    assert ("catalog", "catalog.example.org", "10.0.0.1", "fd00::1") == settings.allowed_hosts
    assert ("10.0.0.7/32", "10.1.0.0/16", "fd00::/8") == settings.trusted_proxies
    assert ("https://app.example.org", "http://localhost:3000") == settings.cors_origins
    for name, values in {
        "ICECORE_ALLOWED_HOSTS": ["a b", "http://a", "a:80", "*", "a/", "[::1]"],
        "ICECORE_CORS_ORIGINS": ["*", "null", "app.example.org", "https://app.example.org/", "https://a@b"],
        "ICECORE_TRUSTED_PROXIES": ["*", "proxy.example.org", "10.0.0.7/8", "10.0.0.0/33", "10.0.0.7:80"],
    }.items():
        for value in values:
            with monkeypatch.context() as changed:
                changed.setenv(name, value)
                with pytest.raises(SettingsError, match=rf"^{name}: each must be an? [a-z ]+, such as "):
                    load_settings()


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("ICECORE_LOCAL_WAREHOUSE_ROOTS", "lakes", "each must be an absolute path without '..', not the root"),
        ("ICECORE_LOCAL_WAREHOUSE_ROOTS", "/lakes:/", "each must be an absolute path"),
        ("ICECORE_LOCAL_WAREHOUSE_ROOTS", "/lakes/../etc", "each must be an absolute path"),
        ("ICECORE_WAREHOUSE_ENDPOINTS", "minio:9000", "each must be the http or https URL of a store"),
        ("ICECORE_WAREHOUSE_ENDPOINTS", "http://user@minio:9000", "each must be the http or https URL of a store"),
        ("ICECORE_WAREHOUSE_ENDPOINTS", "http://minio:65536", "each must be the http or https URL of a store"),
        ("ICECORE_WAREHOUSE_ENDPOINTS", "*", "each must be the http or https URL of a store"),
    ],
)
def test_what_clients_may_name_is_said_exactly(monkeypatch: pytest.MonkeyPatch, name: str, value: str, wanted: str) -> None:
    """A misspelled value must not permit anything else."""
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=f"^{name}: {wanted}"):
        load_settings()


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("ICECORE_PUBLIC_URL", "catalog.example.org", "an http or https URL without a slash at its end"),
        ("ICECORE_NAMESPACE_SEPARATOR", "--", "one of the characters"),
    ],
)
def test_what_is_wanted_is_said_in_words(monkeypatch: pytest.MonkeyPatch, name: str, value: str, wanted: str) -> None:
    """Without a regular expression."""
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match=f"^{name}: must be {wanted}"):
        load_settings()


@pytest.mark.parametrize("value", ["inf", "nan"])
@pytest.mark.parametrize("name", ["SHUTDOWN_GRACE_SECONDS", "COMMIT_DEADLINE_SECONDS", "REQUEST_TIMEOUT_SECONDS", "HTTP__BODY_SECONDS_MAX"])
def test_seconds_are_finite(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """The processes of a server receive the settings as JSON, which has no such numbers."""
    monkeypatch.setenv(f"ICECORE_{name}", value)
    with pytest.raises(SettingsError, match=f"^ICECORE_{name}: must be a finite number"):
        load_settings()


def test_a_connection_is_left_while_every_job_leads() -> None:
    """Each leading job holds one, and needs another one for its work."""
    jobs = [job for job in LeaderJob.__subclasses__() if job.__module__.startswith("icecore.")]
    assert len(jobs) >= 5
    with pytest.raises(SettingsError):
        load_settings(None, {"database_read_connections_max": len(jobs)})
    assert len(jobs) + 1 == load_settings(None, {"database_read_connections_max": len(jobs) + 1}).database_read_connections_max
