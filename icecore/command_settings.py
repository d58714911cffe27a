"""Options that commands share, and the settings of a command."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from .exit_codes import SettingsError
from .logs import configure_logs_for

if TYPE_CHECKING:
    from .settings import Settings

Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
Json = Annotated[Flag, Parameter(name="--json", help="Print JSON.")]
Texts = Annotated[list[str] | None, Parameter(negative=(), allow_leading_hyphen=True)]
JsonArgument = Annotated[str, Parameter(allow_leading_hyphen=True)]
ProtectionOff = Annotated[Flag, Parameter(help="Remove the protection.")]
ProjectName = Annotated[str, Parameter(help="Name or id of the project.")]
WarehouseName = Annotated[str, Parameter(help="Name or id of the warehouse.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options of every command."""

    data: Annotated[Path | None, Parameter(help="Data folder of the embedded Postgres (ICECORE_DATA_DIR; default .icecore).")] = None
    config: Annotated[Path | None, Parameter(help="TOML file with settings (ICECORE_CONFIG).")] = None

    def settings(self, **overrides: Any) -> "Settings":
        """The settings of this command. Also configures logging."""
        # Not for `--help` and the completion of a shell, which read no settings.
        from .settings import load_settings
        from .system_identity import prepare_system_identity

        settings = load_settings(self.config, {"data_dir": self.data, **overrides})
        if self.data is not None and settings.database_url is not None:
            raise SettingsError("--data selects the embedded Postgres, and ICECORE_DATABASE_URL another database: use one of them")
        configure_logs_for(settings)
        prepare_system_identity(settings)
        return settings


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WarehouseOptions(CommonOptions):
    """Options of commands on a warehouse."""

    project: Annotated[
        str | None,
        Parameter(
            help="Name or id of the project. Default: the default project. A warehouse that is given by its id is found in any project."
        ),
    ] = None

    def in_project(self, name: str) -> str:
        """The reference of a warehouse. Without a project, an id is that of any project, and a name that of the default project."""
        return name if self.project is None else f"{self.project}/{name}"

    def of_new(self, name: str) -> tuple[str, "WarehouseOptions"]:
        """The name of a new warehouse, and the options with the project that it names as PROJECT/NAME."""
        project, slash, own_name = name.rpartition("/")
        return (own_name, replace(self, project=project)) if slash and self.project is None else (name, self)
