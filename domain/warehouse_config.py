"""The configuration of clients that the operator of a warehouse sets (`defaults` and `overrides` of /v1/config)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .documents import Json
from .errors import BadRequest
from .events import WarehouseConfigChanged
from .identifiers import refused_character
from .properties import PropertyUpdate, effective_update, updated

CONFIG_PROPERTIES_MAX = 100
"""Limit on the defaults, and on the overrides. Every client receives all of them when it starts."""
CONFIG_KEY_BYTES_MAX = 255
CONFIG_VALUE_BYTES_MAX = 4096
CONFIG_BYTES_MAX = 16 * 1024
"""Limit on the keys and values of defaults and overrides together. Every version of the warehouse has a copy."""


@dataclass(frozen=True, slots=True)
class UpdateWarehouseConfig:
    """Changes what the operator adds to the configuration of clients."""

    defaults: PropertyUpdate
    overrides: PropertyUpdate


@dataclass(frozen=True, slots=True)
class WarehouseConfig:
    """What the operator adds to the `defaults` and `overrides` of /v1/config."""

    defaults: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> Json:
        return {"defaults": self.defaults, "overrides": self.overrides}


def decide_update_config(config: WarehouseConfig, command: UpdateWarehouseConfig) -> WarehouseConfigChanged | None:
    """None if nothing changes. Raises UnprocessableEntity (422) for a key in `updates` and `removals`, and BadRequest beyond the limits.

    The caller checks which keys are permitted. A change that only removes is never beyond the limits.
    """
    defaults_updates, defaults_removals = _changes(config.defaults, command.defaults, "defaults")
    overrides_updates, overrides_removals = _changes(config.overrides, command.overrides, "overrides")
    if not (defaults_updates or defaults_removals or overrides_updates or overrides_removals):
        return None
    event = WarehouseConfigChanged(defaults_updates, defaults_removals, overrides_updates, overrides_removals)
    if defaults_updates or overrides_updates:
        _check_config_size(changed_config(config, event))
    return event


def _changes(before: Mapping[str, str], update: PropertyUpdate, name: str) -> tuple[dict[str, str], list[str]]:
    """The updates and removals that change `before`, with permitted characters and sizes."""
    changes = effective_update(before, update, name)
    for key, value in update.updates.items():
        _check_property(name, key, value)
    return changes


def _check_property(name: str, key: str, value: str) -> None:
    _refuse_characters(key, f"Invalid {name}: a key")
    if len(key.encode()) > CONFIG_KEY_BYTES_MAX:
        raise BadRequest(f"Invalid {name}: a key is longer than {CONFIG_KEY_BYTES_MAX} bytes")
    _refuse_characters(value, f"Invalid {name}: the value of {key!r}")
    if len(value.encode()) > CONFIG_VALUE_BYTES_MAX:
        raise BadRequest(f"Invalid {name}: the value of {key!r} is longer than {CONFIG_VALUE_BYTES_MAX} bytes")


def _refuse_characters(text: str, subject: str) -> None:
    if (refused := refused_character(text)) is not None:
        raise BadRequest(f"{subject} contains {refused}")


def _check_config_size(config: WarehouseConfig) -> None:
    for name, properties in (("defaults", config.defaults), ("overrides", config.overrides)):
        if len(properties) > CONFIG_PROPERTIES_MAX:
            raise BadRequest(f"Invalid {name}: more than {CONFIG_PROPERTIES_MAX} properties")
    size = sum(len(key.encode()) + len(value.encode()) for each in (config.defaults, config.overrides) for key, value in each.items())
    if size > CONFIG_BYTES_MAX:
        raise BadRequest(f"Invalid defaults and overrides: together longer than {CONFIG_BYTES_MAX} bytes")


def changed_config(config: WarehouseConfig, event: WarehouseConfigChanged) -> WarehouseConfig:
    """The configuration after the event."""
    return WarehouseConfig(
        updated(config.defaults, event.defaults_updates, event.defaults_removals),
        updated(config.overrides, event.overrides_updates, event.overrides_removals),
    )
