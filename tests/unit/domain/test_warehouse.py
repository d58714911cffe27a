"""Warehouse, given-when-then: creation, configuration, their events, and its claim."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from icecore.domain.claims import NameClaim
from icecore.domain.errors import AlreadyExists, BadRequest, CatalogError, UnprocessableEntity
from icecore.domain.events import NamespaceDropped, WarehouseConfigChanged, WarehouseCreated
from icecore.domain.properties import PropertyUpdate
from icecore.domain.warehouse import (
    WarehouseState,
    claims,
    decide_create,
    evolve,
)
from icecore.domain.warehouse_config import (
    CONFIG_BYTES_MAX,
    CONFIG_KEY_BYTES_MAX,
    CONFIG_PROPERTIES_MAX,
    CONFIG_VALUE_BYTES_MAX,
    UpdateWarehouseConfig,
    WarehouseConfig,
    decide_update_config,
)

STREAM, PROJECT = UUID(int=1), UUID(int=2)
PROFILE = {"type": "local", "directory": "/w"}
CREATED = WarehouseCreated("Demo", "demo", PROFILE, None, True)


def folded(*events: WarehouseConfigChanged) -> WarehouseState:
    """The state after the creation and these events."""
    state = evolve(None, STREAM, 1, UUID(int=101), PROJECT, CREATED)
    for number, event in enumerate(events, 2):
        state = evolve(state, STREAM, number, UUID(int=100 + number), PROJECT, event)
    return state


def command(
    defaults: Mapping[str, str] | None = None, overrides: Mapping[str, str] | None = None, *, no_defaults: Any = (), no_overrides: Any = ()
) -> UpdateWarehouseConfig:
    return UpdateWarehouseConfig(PropertyUpdate(no_defaults, defaults or {}), PropertyUpdate(no_overrides, overrides or {}))


@pytest.mark.parametrize("exact", [False, True])
def test_a_warehouse_is_found_by_its_name_in_any_case(exact: bool) -> None:
    """Whether names inside are case-sensitive is separate. The credential is added later."""
    assert WarehouseCreated("Démo", "démo", PROFILE, None, exact) == decide_create("Démo", PROFILE, exact_names=exact, taken=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "Invalid warehouse name: must not be empty"),
        ("a\nb", "Invalid warehouse name: contains a control character (U+000A)"),
        ("demo@7", "Invalid warehouse name: must not contain '@'"),
        ("a/b", "Invalid warehouse name: must not contain '/'"),
    ],
)
def test_a_name_that_could_not_be_asked_for_is_refused(name: str, message: str) -> None:
    """`@` precedes a point in time, `/` separates path segments."""
    with pytest.raises(BadRequest) as refusal:
        decide_create(name, PROFILE, exact_names=False, taken=False)
    assert message == refusal.value.message


def test_a_name_that_is_taken_is_refused() -> None:
    """Given a warehouse of that name, when another is created, then AlreadyExists is raised."""
    with pytest.raises(AlreadyExists) as refusal:
        decide_create("demo", PROFILE, exact_names=False, taken=True)
    assert "Warehouse already exists: demo" == refusal.value.message


def test_a_created_warehouse_claims_its_name_in_its_project() -> None:
    """Given nothing, when it is created, then its state is that of the event."""
    state = evolve(None, STREAM, 1, UUID(int=101), PROJECT, decide_create("Demo", PROFILE, exact_names=True, taken=False))
    assert WarehouseState(STREAM, 1, UUID(int=101), PROJECT, "Demo", "demo", PROFILE, None, True) == state
    assert {NameClaim("warehouse", PROJECT, "demo", STREAM)} == claims(state)


def test_an_event_of_something_else_is_no_event_of_a_warehouse() -> None:
    """A bug, which must not be ignored."""
    with pytest.raises(AssertionError, match="NamespaceDropped"):
        evolve(None, STREAM, 1, UUID(int=101), PROJECT, NamespaceDropped())


def test_a_configuration_is_changed_by_key() -> None:
    """Given some properties, when others are set and removed, then the rest stays; name, profile and claim stay too."""
    before = folded(WarehouseConfigChanged({"keep": "1", "change": "1", "gone": "1"}, [], {"keep": "2"}, []))
    assert WarehouseConfig({"keep": "1", "change": "1", "gone": "1"}, {"keep": "2"}) == before.config
    event = decide_update_config(before.config, command({"change": "2", "new": "3"}, {"new": "4"}, no_defaults=["gone", "never"]))
    assert WarehouseConfigChanged({"change": "2", "new": "3"}, ["gone"], {"new": "4"}, []) == event
    assert event is not None
    after = evolve(before, STREAM, 3, UUID(int=103), PROJECT, event)
    assert WarehouseConfig({"keep": "1", "change": "2", "new": "3"}, {"keep": "2", "new": "4"}) == after.config
    assert (3, UUID(int=103), "Demo", PROFILE) == (after.version, after.event_id, after.name, after.storage_profile)
    assert claims(before) == claims(after)
    assert {"keep": "1", "change": "1", "gone": "1"} == before.config.defaults, "the state before is not modified"


@pytest.mark.parametrize(
    "unchanging", [command(), command({"a": "1"}), command(no_defaults=["b", "b"], no_overrides=["a"]), command({"a": "1"}, {"b": "2"})]
)
def test_what_changes_nothing_has_no_event(unchanging: UpdateWarehouseConfig) -> None:
    """Equal values, and removals of keys that are not there. A default is no override."""
    state = folded(WarehouseConfigChanged({"a": "1"}, [], {"b": "2"}, []))
    assert decide_update_config(state.config, unchanging) is None
    assert WarehouseConfigChanged({}, ["a"], {}, []) == decide_update_config(state.config, command(no_defaults=["a", "a"]))


def test_a_key_may_be_a_default_and_an_override() -> None:
    """Clients use the override. It can be removed without the default."""
    assert WarehouseConfigChanged({"a": "1"}, [], {"a": "2"}, []) == decide_update_config(folded().config, command({"a": "1"}, {"a": "2"}))


@pytest.mark.parametrize("name", ["defaults", "overrides"])
@pytest.mark.parametrize(
    ("properties", "removals", "error", "message"),
    [
        ({"a": "1"}, ["a"], UnprocessableEntity, "Invalid {}: cannot simultaneously set and remove keys: [a]"),
        ({"a\nb": "x"}, [], BadRequest, "Invalid {}: a key contains a control character (U+000A)"),
        ({"a\u202eb": "x"}, [], BadRequest, "Invalid {}: a key contains an invisible (bidi or zero-width) character (U+202E)"),
        ({"a": "x\r\ny"}, [], BadRequest, "Invalid {}: the value of 'a' contains a control character (U+000D)"),
        ({"a": "x\udc80"}, [], BadRequest, "Invalid {}: the value of 'a' contains an unpaired surrogate (U+DC80)"),
        ({"a\u2028b": "x"}, [], BadRequest, "Invalid {}: a key contains a line separator (U+2028)"),
        ({"a": "x\u2029"}, [], BadRequest, "Invalid {}: the value of 'a' contains a paragraph separator (U+2029)"),
        ({"a": "\ue000"}, [], BadRequest, "Invalid {}: the value of 'a' contains a private-use character (U+E000)"),
        ({"a": "x\u200dy"}, [], BadRequest, "Invalid {}: the value of 'a' contains an invisible (bidi or zero-width) character (U+200D)"),
        ({"é" * 128: "x"}, [], BadRequest, "Invalid {}: a key is longer than 255 bytes"),
        ({"a": "é" * 2049}, [], BadRequest, "Invalid {}: the value of 'a' is longer than 4096 bytes"),
        ({f"k{n}": "v" for n in range(101)}, [], BadRequest, "Invalid {}: more than 100 properties"),
    ],
)
def test_what_clients_must_not_receive_is_refused(
    name: str, properties: dict[str, str], removals: list[str], error: type[CatalogError], message: str
) -> None:
    """Among the defaults as among the overrides. The message names the key or the limit, never the value."""
    change, none = PropertyUpdate(removals, properties), PropertyUpdate()
    asked = UpdateWarehouseConfig(change, none) if name == "defaults" else UpdateWarehouseConfig(none, change)
    with pytest.raises(error) as refusal:
        decide_update_config(folded().config, asked)
    assert message.format(name) == refusal.value.message


def test_limits_include_themselves() -> None:
    """Negative control of the limits: exactly at each of them, a change is accepted."""
    long = {"k" * CONFIG_KEY_BYTES_MAX: "é" * (CONFIG_VALUE_BYTES_MAX // 2)}
    many = {f"k{n}": "" for n in range(CONFIG_PROPERTIES_MAX)}
    for properties in (long, many, {"empty": ""}, {"joiner that joins": "می\u200cخواهم"}):
        assert WarehouseConfigChanged(properties, [], properties, []) == decide_update_config(
            folded().config, command(properties, properties)
        )


def test_the_whole_configuration_has_a_limit() -> None:
    """In bytes, of all keys and values after the change, whichever request set them. What is removed makes room."""
    values = {f"é{n}": "é" * 2046 + "v" for n in range(4)}
    assert CONFIG_BYTES_MAX == sum(len(key.encode()) + len(value.encode()) for key, value in values.items())
    full = folded(WarehouseConfigChanged(dict([*values.items()][:2]), [], dict([*values.items()][2:]), []))
    with pytest.raises(BadRequest) as refusal:
        decide_update_config(full.config, command(None, {"n": ""}))
    assert "Invalid defaults and overrides: together longer than 16384 bytes" == refusal.value.message
    assert WarehouseConfigChanged({}, ["é0"], {"n": ""}, []) == decide_update_config(
        full.config, command(None, {"n": ""}, no_defaults=["é0"])
    )


def test_a_key_can_be_removed_whatever_remains() -> None:
    """Also if the remaining properties exceed limits that were higher when they were set."""
    large = folded(WarehouseConfigChanged({f"k{n}": "v" * 4096 for n in range(2 * CONFIG_PROPERTIES_MAX)}, [], {}, []))
    assert WarehouseConfigChanged({}, ["k0"], {}, []) == decide_update_config(large.config, command(no_defaults=["k0"]))
    with pytest.raises(BadRequest, match="more than 100 properties"):
        decide_update_config(large.config, command({"k1": ""}, no_defaults=["k0"]))


def test_the_number_of_properties_is_that_after_the_change() -> None:
    """A full map takes a new key in place of another."""
    full = folded(WarehouseConfigChanged({f"k{n}": "v" for n in range(CONFIG_PROPERTIES_MAX)}, [], {}, []))
    with pytest.raises(BadRequest, match="more than 100 properties"):
        decide_update_config(full.config, command({"n": "v"}))
    assert decide_update_config(full.config, command({"n": "v"}, no_defaults=["k0"])) is not None
