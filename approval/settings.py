"""What an operator may say of an approval hook: `[hooks.NAME]` in the settings file, `ICECORE_HOOKS__NAME__…` in the environment."""

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from approval.contract import REVIEWED_OPERATIONS
from domain.identifiers import FILTER_NAME_RULE, is_filter_name
from publishers.setting_values import Words, parsed_object, revealed
from publishers.webhook_settings import WebhookSettings


def _number(value: Any) -> Any:
    """The environment writes a number as text."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


class _Hook(BaseModel):
    """What every hook has.

    operations, warehouses, namespaces -- which changes it is asked about; none named: all.
    on_failure -- what stands for a verdict that does not come in time or cannot be read.
    refusal_status -- of the answer to what it refuses or holds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    operations: Words = ()
    warehouses: Words = ()
    namespaces: Words = ()
    timeout_seconds: float = Field(default=5.0, gt=0, le=60)
    on_failure: Literal["refuse", "allow"] = "refuse"
    refusal_status: Annotated[Literal[409, 403], BeforeValidator(_number)] = 409

    @field_validator("operations")
    @classmethod
    def _check_operations(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            if not any(fnmatchcase(operation, pattern) for operation in REVIEWED_OPERATIONS):
                raise ValueError(f"no operation {pattern!r} is asked about; there are {', '.join(sorted(REVIEWED_OPERATIONS))}")
        return value

    @field_validator("warehouses", "namespaces")
    @classmethod
    def _check_names(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        for name in value:
            if not is_filter_name(name):
                raise ValueError(f"{info.field_name}: {name!r} {FILTER_NAME_RULE}")
        return value

    def to_json(self) -> dict[str, Any]:
        """Every value, secrets in the clear: for a pipe to a process of ours, never for a file or a log."""
        plain: dict[str, Any] = revealed({name: value for name, value in self if value is not None})
        return plain


class PluginHook(_Hook):
    """Python code, found by its entry point in the group `icecore.approval_hooks` and called with `options` once at the start."""

    type: Literal["plugin"]
    plugin: str = Field(min_length=1)
    options: Annotated[dict[str, Any], BeforeValidator(parsed_object)] = {}


class WebhookHook(WebhookSettings, _Hook):
    """An HTTP endpoint that is sent each change by POST, signed as Standard Webhooks says, and answers with its verdict."""

    type: Literal["webhook"]


HookSettings = Annotated[PluginHook | WebhookHook, Field(discriminator="type")]
HOOK_FIELDS: frozenset[str] = frozenset().union(*(hook.model_fields for hook in (PluginHook, WebhookHook)))
"""Every name a hook's setting may have."""
