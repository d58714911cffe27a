"""Creates the approval hooks of the settings: plug-ins from their entry points, and webhooks."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import entry_points
from typing import Any

import structlog

from .approval.contract import ApprovalHook
from .approval.hooks import ConfiguredHook
from .approval.settings import HookSettings, PluginHook
from .approval.webhook import ApprovalWebhook
from .domain.client_errors import client_error_text
from .plugin_thread import PluginThread
from .publishers.sink import SinkError
from .settings import Settings, SettingsError

_log = structlog.get_logger("icecore.hooks")

GROUP = "icecore.approval_hooks"


@asynccontextmanager
async def opened_hooks(settings: Settings) -> AsyncIterator[list[ConfiguredHook]]:
    """Opens every hook. Raises SettingsError if a plug-in is not installed or rejects its options."""
    async with AsyncExitStack() as opened:
        yield [await _configured(opened, name, hook) for name, hook in settings.hooks.items()]


def check_hooks(settings: Settings) -> None:
    """Raises SettingsError for invalid hooks, before a process is started."""
    for name, hook in settings.hooks.items():
        _made(name, hook)


def hook_failures(settings: Settings) -> dict[str, str | None]:
    """Why each hook cannot be created; None for one that can. Nothing is logged."""
    found: dict[str, str | None] = {}
    for name, hook in settings.hooks.items():
        try:
            _made(name, hook, is_logged=False)
            found[name] = None
        except SettingsError as error:
            found[name] = str(error)
    return found


async def _configured(opened: AsyncExitStack, name: str, settings: HookSettings) -> ConfiguredHook:
    hook = _made(name, settings)
    if isinstance(hook, ApprovalWebhook):
        try:
            await hook.open()
        except OSError as error:
            raise SettingsError(f"The hook {name}: the certificates cannot be read: {type(error).__name__}") from None
        opened.push_async_callback(hook.close)
    elif not getattr(hook, "never_blocks", False):
        hook = PluginThread(name, hook)
        opened.push_async_callback(hook.close)
    return ConfiguredHook(name, hook, settings.timeout_seconds, settings.on_failure, settings.hook_filter(), settings.refusal_status)


def _made(name: str, settings: HookSettings, *, is_logged: bool = True) -> ApprovalHook:
    if isinstance(settings, PluginHook):
        return _plugin(name, settings, is_logged=is_logged)
    try:
        return ApprovalWebhook(settings)
    except SinkError as error:
        raise SettingsError(f"The hook {name}: {error}") from None


def _plugin(name: str, settings: PluginHook, *, is_logged: bool) -> ApprovalHook:
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    entry = found.get(settings.plugin)
    if entry is None:
        there = ", ".join(sorted(found)) or "none"
        raise SettingsError(f"The hook {name} needs the plug-in {settings.plugin!r}; installed in the group {GROUP}: {there}")
    try:
        make: Callable[[Mapping[str, Any]], ApprovalHook] = entry.load()
        hook = make(settings.options)
    except Exception as error:
        # The text may contain the value of an option. It is logged only in the trace, where secrets are redacted.
        if is_logged:
            _log.error("plugin_failed", hook=name, plugin=settings.plugin, exc_info=error)
        raise SettingsError(f"The hook {name}: the plug-in {settings.plugin!r} cannot be created: {client_error_text(error)}") from None
    if not callable(getattr(hook, "review", None)):
        raise SettingsError(f"The hook {name}: the plug-in {settings.plugin!r} has no method `review`")
    return hook
