"""Settings of approval hooks: `[hooks.NAME]` in the settings file, `ICECORE_HOOKS__NAME__…` in the environment."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ..publishers.setting_values import Words, parsed_object, revealed
from ..publishers.webhook_settings import WebhookSettings
from .hooks import HookFilter


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

    @model_validator(mode="after")
    def _check_filter(self) -> "_Hook":
        self.hook_filter()
        return self

    def hook_filter(self) -> HookFilter:
        return HookFilter.parse(self.operations, self.warehouses, self.namespaces)

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
