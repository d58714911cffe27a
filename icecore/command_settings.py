"""Options that commands share, and the settings of a command."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from .logs import configure_logs_for
from .settings import Settings, SettingsError, load_settings
from .system_identity import prepare_system_identity

Data = Annotated[Path | None, Parameter(name="--data", help="Data folder of the embedded Postgres (ICECORE_DATA_DIR; default .icecore).")]
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON.")]
Config = Annotated[Path | None, Parameter(name="--config", help="TOML file with settings (ICECORE_CONFIG).")]

Project = Annotated[
    str | None,
    Parameter(name="--project", help="Name or id of the warehouse's project. Default: the default project, or that of a warehouse's id."),
]


def command_settings(config: Path | None, data: Path | None, **overrides: Any) -> Settings:
    """The settings of this command. Also configures logging."""
    settings = load_settings(config, {"data_dir": data, **overrides})
    if data is not None and settings.database_url is not None:
        raise SettingsError("--data selects the embedded Postgres, and ICECORE_DATABASE_URL another database: use one of them")
    configure_logs_for(settings)
    prepare_system_identity(settings)
    return settings


def in_project(project: str | None, name: str) -> str:
    """The reference of a warehouse in a project. Without one, an id is that of any project, and a name that of the default project."""
    return name if project is None else f"{project}/{name}"
