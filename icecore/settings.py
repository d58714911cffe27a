"""All settings, from the command line, the environment (`ICECORE_…`) and a file, in this order (docs/reference/settings.md)."""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from .api.limits import DEFAULT_LIMITS, MEBIBYTE, ApiLimits
from .api.origins import OriginRules, host_name
from .api.proxies import ForwardedHeader, TrustedProxies
from .approval.settings import HOOK_FIELDS, HookSettings
from .database_url import check_database_url
from .domain.invalid_values import nearest_name, value_must
from .embedded_postgres import STATE_DIRECTORY
from .exit_codes import SettingsError as SettingsError
from .http_settings import HttpSettings
from .publishers.sink_settings import SINK_FIELDS, SinkName, SinkSettings
from .setting_types import AbsolutePath, HostName, Network, Origin, PublicUrl, ReservedName, Separator, StoreEndpoint
from .storage.cloud_profiles import Endpoint
from .storage.large_documents import BYTES_CONCURRENT_MAX
from .storage.permitted_profiles import PermittedProfiles
from .storage.system_credentials import SystemCredentials

PREFIX = "ICECORE_"
CONFIG_VARIABLE = "ICECORE_CONFIG"
DATA_DIRECTORY_DEFAULT = Path(".icecore")
SETTING_FILE_BYTES_MAX = MEBIBYTE
_NOT_OURS = "ICECORE_TEST_"
"""Variables of the test suite."""
_NAMES_WITH_COMMAS = ("admin_roles", "allowed_hosts", "cors_origins", "trusted_proxies", "warehouse_endpoints", "reserved_namespaces")
_NAMED = {"sinks": SINK_FIELDS, "hooks": HOOK_FIELDS}
"""Settings that are tables of named entries, and the fields of an entry."""
_NAMED_VARIABLE = re.compile(rf"^(?P<entry>{PREFIX}(?P<table>SINKS|HOOKS)__(?P<name>.+?)__)(?P<field>.+)$")
_EVERY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound to


class _Environment(EnvSettingsSource):
    """The environment. Variables of sinks and hooks stay texts; the types of their fields convert them."""

    def prepare_field_value(self, field_name: str, field: FieldInfo, value: Any, value_is_complex: bool) -> Any:
        if field_name in _NAMED:
            return _named_in_environment(field_name)
        return super().prepare_field_value(field_name, field, value, value_is_complex)


class Settings(BaseSettings):
    """The settings of one process. Load them with `load_settings`. The variable of a setting is ICECORE_<NAME>, with `__` for a dot."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        allow_inf_nan=False,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=True,
    )

    # The log
    database_url: SecretStr | None = None
    database_owner_url: SecretStr | None = None
    database_pooler_url: SecretStr | None = None
    read_only: bool = False
    admin_roles: Annotated[tuple[str, ...], NoDecode] = ()
    data_dir: Path = DATA_DIRECTORY_DEFAULT
    embedded_state_dir: Path = STATE_DIRECTORY
    unsafe_durability: bool = False
    local_files_fsync: bool = True
    # Each of the worker's five jobs holds a connection while it leads, and needs another one for its work.
    database_read_connections_max: int = Field(default=16, ge=6, le=1_000)
    database_write_connections_max: int = Field(default=4, ge=1, le=1_000)
    commit_deadline_seconds: float = Field(default=30.0, gt=0)
    read_cache_bytes_max: int = Field(default=64 * MEBIBYTE, ge=0)
    large_documents_bytes_max: int = Field(default=BYTES_CONCURRENT_MAX, ge=BYTES_CONCURRENT_MAX)

    # The server
    host: str = "127.0.0.1"
    port: int = Field(default=8181, ge=0, le=65_535)
    insecure: bool = False
    allowed_hosts: Annotated[tuple[HostName, ...], NoDecode] = ()
    cors_origins: Annotated[tuple[Origin, ...], NoDecode] = ()
    trusted_proxies: Annotated[tuple[Network, ...], NoDecode] = ()
    forwarded_header: ForwardedHeader = "X-Forwarded-For"
    workers: int = Field(default=1, ge=1, le=256)
    worker_beside_server: bool = True
    default_project: bool = True
    metrics_port: int | None = Field(default=None, ge=0, le=65_535)
    shutdown_grace_seconds: float = Field(default=20.0, ge=0)

    # Requests and responses
    body_bytes_max: int = Field(default=DEFAULT_LIMITS.body_bytes_max, ge=1_024)
    request_timeout_seconds: float = Field(default=DEFAULT_LIMITS.read_seconds_max, gt=0)
    namespace_separator: Separator | None = None
    page_size_default: int = Field(default=DEFAULT_LIMITS.page_size_default, ge=1)
    page_size_max: int = Field(default=DEFAULT_LIMITS.page_size_max, ge=1)
    idempotency_key_lifetime: timedelta = Field(default=DEFAULT_LIMITS.idempotency_key_lifetime, gt=timedelta(0))
    metrics_reports_max: int = Field(default=100_000, ge=0)
    http: HttpSettings = HttpSettings()

    # Publishing
    sinks: dict[SinkName, SinkSettings] = {}
    event_subscribers_max: int = Field(default=200, ge=1)
    public_url: PublicUrl | None = None

    # Approval
    hooks: dict[SinkName, HookSettings] = {}

    # Secrets of warehouses
    secret_key: SecretStr | None = None
    secret_key_file: Path | None = None
    secret_key_files_previous: Annotated[tuple[Path, ...], NoDecode] = ()

    # Warehouses that clients may create
    local_warehouse_roots: Annotated[tuple[AbsolutePath, ...], NoDecode] = ()
    warehouse_endpoints: Annotated[tuple[StoreEndpoint, ...], NoDecode] = ()
    warehouses_without_credential: bool = False
    enable_aws_system_credentials: bool = False
    enable_gcp_system_credentials: bool = False
    enable_azure_system_credentials: bool = False
    s3_enable_direct_system_credentials: bool = False
    s3_require_external_id_for_system_credentials: bool = True
    skip_storage_validation: bool = False
    reserved_namespaces: Annotated[tuple[ReservedName, ...], NoDecode] = ("system", "examples", "information_schema")

    # Logs and metrics
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, _Environment(settings_cls)

    @field_validator("database_url", "database_owner_url", "database_pooler_url")
    @classmethod
    def _check_database_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            check_database_url(value.get_secret_value())
        return value

    @field_validator("secret_key_files_previous", "local_warehouse_roots", mode="before")
    @classmethod
    def _split_paths(cls, value: Any) -> Any:
        return [part for part in value.split(os.pathsep) if part] if isinstance(value, str) else value

    @field_validator(*_NAMES_WITH_COMMAS, mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _agree(self) -> "Settings":
        for name in ("database_owner_url", "database_pooler_url"):
            if getattr(self, name) is not None and self.database_url is None:
                raise ValueError(f"{PREFIX}{name.upper()} is set without ICECORE_DATABASE_URL: set both, for the same database")
        if self.read_only and self.database_url is None:
            raise ValueError("ICECORE_READ_ONLY is set without ICECORE_DATABASE_URL: set the URL of the standby there")
        if self.secret_key is not None and self.secret_key_file is not None:
            raise ValueError("ICECORE_SECRET_KEY and ICECORE_SECRET_KEY_FILE are both set: set one of them")
        if self.metrics_port is not None and self.metrics_port == self.port != 0:
            raise ValueError("ICECORE_METRICS_PORT is the port of the catalog, --port (ICECORE_PORT): choose another")
        if self.page_size_default > self.page_size_max:
            raise ValueError("ICECORE_PAGE_SIZE_DEFAULT is larger than ICECORE_PAGE_SIZE_MAX")
        return self

    @property
    def dsn(self) -> str:
        """The URL of the database; it may contain a password. Only for a process whose database_url is set."""
        if self.database_url is None:
            raise SettingsError("database_url is not set")
        return self.database_url.get_secret_value()

    @property
    def owner_dsn(self) -> str:
        """The URL for the schema's owner; `dsn` if none is set."""
        return self.dsn if self.database_owner_url is None else self.database_owner_url.get_secret_value()

    @property
    def pooler_dsn(self) -> str | None:
        """The URL of PgBouncer in transaction mode, for the reads and appends of requests; None if they use `dsn`."""
        return None if self.database_pooler_url is None else self.database_pooler_url.get_secret_value()

    def api_limits(self) -> ApiLimits:
        """The limits of the HTTP edge."""
        return ApiLimits(
            body_bytes_max=self.body_bytes_max,
            read_seconds_max=self.request_timeout_seconds,
            page_size_default=self.page_size_default,
            page_size_max=self.page_size_max,
            idempotency_key_lifetime=self.idempotency_key_lifetime,
            **self.http.model_dump(),
        )

    def origin_rules(self) -> OriginRules:
        """The hosts and web origins that requests may name."""
        public = None if self.public_url is None else urlsplit(self.public_url)
        named = [] if public is None else [host_name(public.netloc.rpartition("@")[2])]
        own = [] if public is None else [f"{public.scheme}://{public.netloc}"]
        bound = [] if self.host in _EVERY_ADDRESS else [self.host]
        hosts = (*self.allowed_hosts, *bound, *(name for name in named if name))
        return OriginRules(hosts, own_origins=own, cors_origins=self.cors_origins)

    def proxies(self) -> TrustedProxies:
        """The proxies that name the clients of requests."""
        return TrustedProxies(self.trusted_proxies, self.forwarded_header)

    def permitted_profiles(self) -> PermittedProfiles:
        """The storage profiles that clients may create warehouses with."""
        endpoints = frozenset(map(Endpoint.parse, self.warehouse_endpoints))
        return PermittedProfiles(self.local_warehouse_roots, endpoints, self.warehouses_without_credential)

    def system_credentials(self) -> SystemCredentials:
        """Whether warehouses may use the server's own identity."""
        return SystemCredentials(
            aws=self.enable_aws_system_credentials,
            s3_direct=self.s3_enable_direct_system_credentials,
            s3_external_id=self.s3_require_external_id_for_system_credentials,
            gcp=self.enable_gcp_system_credentials,
            azure=self.enable_azure_system_credentials,
        )

    def to_json(self) -> dict[str, Any]:
        """All values, with secrets in clear text. Only for a pipe to a child process."""
        secrets = {name: value.get_secret_value() for name, value in self if isinstance(value, SecretStr)}
        named = {
            "sinks": {name: sink.to_json() for name, sink in self.sinks.items()},
            "hooks": {name: hook.to_json() for name, hook in self.hooks.items()},
        }
        return self.model_dump(mode="json") | secrets | named


def settings_from_json(values: dict[str, Any]) -> Settings:
    """Reads the result of `to_json`."""
    return Settings(**values)


def load_settings(config: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Loads the settings of this process. `overrides` (the command line) take precedence over the environment, and the environment over the
    file.

    config -- a TOML file with the names of the settings as keys; default: the file of ICECORE_CONFIG, if set.

    Raises SettingsError for an unknown name (with the nearest known one), a value out of range, or a missing file.
    """
    _refuse_unknown_variables()
    named = config or (Path(os.environ[CONFIG_VARIABLE]) if os.environ.get(CONFIG_VARIABLE) else None)
    from_file = {} if named is None else _read_file(named)

    class Sources(Settings):
        """The settings class with the sources of this call."""

        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, _Environment(settings_cls), InitSettingsSource(settings_cls, init_kwargs=from_file)

    given = {name: value for name, value in (overrides or {}).items() if value is not None}
    try:
        loaded = Sources(**given)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)
        raise SettingsError("; ".join(_complaint(one, given, from_file, named) for one in found)) from None
    return Settings.model_construct(**{name: getattr(loaded, name) for name in Settings.model_fields})


def setting_names() -> list[str]:
    """The environment variables of all settings, in the order of the class."""
    return [PREFIX + name.upper().replace(".", "__") for name in _dotted_names()]


def _dotted_names() -> list[str]:
    nested = [f"http.{name}" for name in HttpSettings.model_fields]
    return [name for name in Settings.model_fields if name != "http" and name not in _NAMED] + nested


def _named_in_environment(table: str) -> dict[str, dict[str, str]]:
    """`ICECORE_SINKS__NAME__FIELD=text` for each sink, and the same for hooks. Names are lower case."""
    named: dict[str, dict[str, str]] = {}
    for variable, text in os.environ.items():
        match = _NAMED_VARIABLE.match(variable.upper())
        if match is not None and match["table"].lower() == table and text:
            named.setdefault(match["name"].lower(), {})[match["field"].lower()] = text
    return named


def _refuse_unknown_variables() -> None:
    known = {*setting_names(), CONFIG_VARIABLE}
    for name in sorted(os.environ):
        named = _NAMED_VARIABLE.match(name.upper())
        if named is not None:
            fields = {field.upper() for field in _NAMED[named["table"].lower()]}
            # Whether the entry's type has the field is checked later.
            if named["field"] not in fields:
                raise SettingsError(f"Unknown setting {name}{_nearest(named['field'], fields, named['entry'])}")
            continue
        if name.upper().startswith(PREFIX) and not name.startswith(_NOT_OURS) and name.upper() not in known:
            raise SettingsError(f"Unknown setting {name}{_nearest(name.upper(), known, PREFIX)}")


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(SETTING_FILE_BYTES_MAX).decode()
        values = tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"The settings file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"The settings file {path} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"The settings file {path} is not TOML: {error}") from None
    known = set(_dotted_names())
    for table in _NAMED:
        things = values.get(table, {})
        if not isinstance(things, dict) or not all(isinstance(thing, dict) for thing in things.values()):
            raise SettingsError(f"{table} in {path} must be a table of tables: write [{table}.NAME] and its settings below")
        for name, thing in things.items():
            for field in thing:
                if field not in _NAMED[table]:
                    entry = f"{table}.{name}."
                    raise SettingsError(f"Unknown setting {entry}{field} in {path}{_nearest(field, _NAMED[table], entry)}")
    for name in _flat({name: value if name == "http" else None for name, value in values.items() if name not in _NAMED}):
        if name not in known:
            raise SettingsError(f"Unknown setting {name} in {path}{_nearest(name, {*known, *_NAMED, 'http'})}")
    return values


def _flat(values: Mapping[str, Any], above: str = "") -> Iterable[str]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name


def _nearest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """prefix -- the beginning of all whole names; compared without it, because it makes each name resemble every other."""
    nearest = nearest_name(name.removeprefix(prefix), [each.removeprefix(prefix) for each in known])
    return f"; did you mean {prefix}{nearest}?" if nearest else "; see 'Settings' in the documentation"


def _types(table: str) -> Iterable[str]:
    """The types that entries of a table may have."""
    models = get_args(get_args({"sinks": SinkSettings, "hooks": HookSettings}[table])[0])
    return (get_args(model.model_fields["type"].annotation)[0] for model in models)


def _complaint(error: Any, given: Iterable[str], from_file: Mapping[str, Any], file: Path | None) -> str:
    """Describes an invalid setting, by the name that was used: its command-line option, its name in the file, or its variable."""
    loc = error["loc"]
    # The location of an error in a sink or hook has the entry's type before the field.
    loc = (*loc[:2], *loc[3:4]) if loc and loc[0] in _NAMED else loc[:2]
    # The index of a list element is not part of a name.
    names = [part for part in loc if isinstance(part, str)]
    rule = value_must(error)
    if not names:
        return rule
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        names, rule = [*names, "type"], f"must be one of {', '.join(_types(names[0]))}"
    name = PREFIX + "__".join(names).upper()
    if names[0] in given:
        name = "--" + names[0].replace("_", "-")
    elif name not in map(str.upper, os.environ) and _is_set(names, from_file):
        name = f"{'.'.join(names)} in {file}"
    return f"{name}: {rule}"


def _is_set(names: list[str], values: Mapping[str, Any]) -> bool:
    """Whether the file has the setting, or the sink or hook that lacks it."""
    return all(name in table for name, table in zip(names[:2], (values, values.get(names[0], {})), strict=False))
