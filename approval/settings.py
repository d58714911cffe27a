"""Settings of approval hooks: `[hooks.NAME]` in the settings file, `ICECORE_HOOKS__NAME__…` in the environment."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ..publishers.setting_values import Words, parsed_object, revealed
from ..publishers.webhook_settings import WebhookSettings
from .hooks import HookFilter


def _number(value: Any) -> Any:
    """The number of a text, because the environment has only texts."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


class _Hook(BaseModel):
    """Settings of every hook.

    operations, warehouses, namespaces -- which changes the hook reviews; empty: all.
    on_failure -- what happens without a valid verdict in time.
    refusal_status -- the status of refusals and holds.
    """

    model_config = ConfigDict(allow_inf_nan=False, extra="forbid", frozen=True, hide_input_in_errors=True)

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
        """All values, with secrets in clear text. Only for a pipe to a child process."""
        plain: dict[str, Any] = revealed({name: value for name, value in self if value is not None})
        return plain


class PluginHook(_Hook):
    """A plug-in: a Python callable of the entry point group `icecore.approval_hooks`. It is called once at the start with `options`."""

    type: Literal["plugin"]
    plugin: str = Field(min_length=1)
    options: Annotated[dict[str, Any], BeforeValidator(parsed_object)] = {}


class WebhookHook(WebhookSettings, _Hook):
    """An HTTP endpoint. Each change is sent to it by POST, signed as Standard Webhooks specifies, and its response is the verdict."""

    type: Literal["webhook"]


HookSettings = Annotated[PluginHook | WebhookHook, Field(discriminator="type")]
HOOK_FIELDS: frozenset[str] = frozenset().union(*(hook.model_fields for hook in (PluginHook, WebhookHook)))
"""All settings of hooks."""
