"""Commands as proposals store them: the operation and the fields as one JSON object.

Every command that can wait for approval has a form here. Registrations have none, because they depend on files.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from .commands import (
    CommitTable,
    CommitTransaction,
    CommitView,
    CreateNamespace,
    CreateTable,
    CreateView,
    DropNamespace,
    DropTable,
    DropView,
    MoveNamespace,
    RenameTable,
    RenameView,
    SetNamespaceProtection,
    SetTableProtection,
    SetViewProtection,
    UnregisterTable,
    UpdateNamespaceProperties,
)
from .documents import Json
from .identifiers import NamespaceIdentifier, TabularIdentifier, uuid_or_none


class StoredCommand(NamedTuple):
    """A command in its stored form.

    operation -- the REST spec's operationId.
    fields -- those of the command, with names in kebab case.
    key -- sha256 over both, equal for two requests for the same change.
    bytes_count -- of the fields as JSON.
    """

    operation: str
    fields: Json
    key: str
    bytes_count: int


class UnreadableCommandError(ValueError):
    """The stored command is not one of this program."""


class _MismatchError(ValueError):
    """The error for a stored value that does not match its field; its text names the expected type."""


_ALWAYS_STORED: Final = object()


class _Form(NamedTuple):
    """How a field's value is stored. `decode` raises _MismatchError, or UnreadableCommandError for a nested command.

    omitted -- the value that is not stored, so that older proposals, which lack the field, are read and found by the same key.
    """

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    omitted: object = _ALWAYS_STORED


def encode(command: object) -> StoredCommand | None:
    """Encodes a command; None if it cannot wait for approval. JSON objects inside are shared, not copied."""
    found = _FORMS.get(type(command))
    if found is None:
        return None
    operation, members = found
    stored = _encoded(command, members)
    written = orjson.dumps(stored, option=orjson.OPT_SORT_KEYS)
    return StoredCommand(operation, stored, hashlib.sha256(operation.encode() + b"\n" + written).hexdigest(), len(written))


def decode(operation: str, stored: Json) -> Any:
    """The command that was encoded. Raises UnreadableCommandError for anything that `encode` would not have written."""
    command = _COMMANDS.get(operation)
    if command is None:
        raise UnreadableCommandError(f"a change by {operation} cannot wait for approval")
    return _decoded(command, _FORMS[command][1], stored)


def _encoded(command: object, members: Mapping[str, _Form]) -> Json:
    values = [getattr(command, each.name) for each in fields(command)]  # type: ignore[arg-type]
    given = zip(members.items(), values, strict=True)
    return {member: form.encode(value) for (member, form), value in given if form.omitted is _ALWAYS_STORED or value != form.omitted}


def _decoded(command: type, members: Mapping[str, _Form], stored: Any) -> Any:
    required = {member for member, form in members.items() if form.omitted is _ALWAYS_STORED}
    if not isinstance(stored, dict) or not required <= stored.keys() <= members.keys():
        raise UnreadableCommandError(f"{command.__name__} must be stored with the members {', '.join(members)}")
    return command(*[_read(member, form, stored[member]) if member in stored else form.omitted for member, form in members.items()])


def _read(member: str, form: _Form, value: Any) -> Any:
    try:
        return form.decode(value)
    except _MismatchError as error:
        raise UnreadableCommandError(f"{member} {error}") from None


def _checked(kind: type, expected: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise _MismatchError(f"must be {expected}")
        return value

    return check


_text, _object = _checked(str, "a string"), _checked(dict, "an object")
_boolean, _list = _checked(bool, "true or false"), _checked(list, "a list")


def _each(check: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    return lambda values: [check(value) for value in _list(values)]


def _optional(form: _Form) -> _Form:
    return _Form(lambda value: None if value is None else form.encode(value), lambda value: None if value is None else form.decode(value))


def _uuid(value: Any) -> UUID:
    found = uuid_or_none(_text(value))
    if found is None:
        raise _MismatchError("must be a UUID")
    return found


def _texts_by_name(value: Any) -> dict[str, str]:
    return {name: _text(each) for name, each in _object(value).items()}


def _namespace(value: Any) -> NamespaceIdentifier:
    levels = _each(_text)(value)
    if not levels:
        raise _MismatchError("must have at least one level")
    return NamespaceIdentifier(tuple(levels))


def _tabular(value: Any) -> TabularIdentifier:
    if _object(value).keys() != {"namespace", "name"}:
        raise _MismatchError("must have namespace and name")
    return TabularIdentifier(_namespace(value["namespace"]), _text(value["name"]))


def _commits(value: Any) -> tuple[CommitTable, ...]:
    return tuple(_decoded(CommitTable, _COMMIT, each) for each in _list(value))


_TEXT = _Form(_text, _text)
_BOOLEAN = _Form(_boolean, _boolean)
_OPTION = _Form(_boolean, _boolean, omitted=False)
_UUID = _Form(str, _uuid)
_OBJECT = _Form(_object, _object)
_OBJECTS = _Form(list, _each(_object))
_TEXTS = _Form(list, _each(_text))
_TEXTS_BY_NAME = _Form(dict, _texts_by_name)
_NAMESPACE = _Form(lambda namespace: list(namespace.levels), _namespace)
_TABULAR = _Form(lambda tabular: {"namespace": list(tabular.namespace.levels), "name": tabular.name}, _tabular)
_COMMIT = {"table": _TABULAR, "requirements": _OBJECTS, "updates": _OBJECTS}
_COMMITS = _Form(lambda commits: [_encoded(each, _COMMIT) for each in commits], _commits)

# The members in the order of the command's fields.
_FORMS: dict[type, tuple[str, Mapping[str, _Form]]] = {
    CreateNamespace: ("createNamespace", {"namespace": _NAMESPACE, "properties": _TEXTS_BY_NAME}),
    UpdateNamespaceProperties: ("updateProperties", {"namespace": _NAMESPACE, "removals": _TEXTS, "updates": _TEXTS_BY_NAME}),
    SetNamespaceProtection: ("setNamespaceProtection", {"namespace-id": _UUID, "protected": _BOOLEAN}),
    MoveNamespace: ("moveNamespace", {"namespace-id": _UUID, "destination": _NAMESPACE, "force": _OPTION}),
    DropNamespace: (
        "dropNamespace",
        {"namespace": _NAMESPACE, "force": _OPTION, "recursive": _OPTION, "purge": _Form(_boolean, _boolean, omitted=None)},
    ),
    CreateTable: (
        "createTable",
        {
            "namespace": _NAMESPACE,
            "name": _TEXT,
            "location": _optional(_TEXT),
            "schema": _OBJECT,
            "partition-spec": _optional(_OBJECT),
            "write-order": _optional(_OBJECT),
            "properties": _TEXTS_BY_NAME,
            "stage-create": _BOOLEAN,
        },
    ),
    CommitTable: ("updateTable", _COMMIT),
    CommitTransaction: ("commitTransaction", {"changes": _COMMITS}),
    SetTableProtection: ("setTableProtection", {"table-id": _UUID, "protected": _BOOLEAN}),
    DropTable: ("dropTable", {"table": _TABULAR, "purge-requested": _optional(_BOOLEAN), "force": _OPTION}),
    UnregisterTable: ("unregisterTable", {"table": _TABULAR, "force": _OPTION}),
    RenameTable: ("renameTable", {"source": _TABULAR, "destination": _TABULAR}),
    CreateView: (
        "createView",
        {
            "namespace": _NAMESPACE,
            "name": _TEXT,
            "location": _optional(_TEXT),
            "schema": _OBJECT,
            "view-version": _OBJECT,
            "properties": _TEXTS_BY_NAME,
        },
    ),
    CommitView: ("replaceView", {"view": _TABULAR, "requirements": _OBJECTS, "updates": _OBJECTS}),
    SetViewProtection: ("setViewProtection", {"view-id": _UUID, "protected": _BOOLEAN}),
    DropView: ("dropView", {"view": _TABULAR, "force": _OPTION}),
    RenameView: ("renameView", {"source": _TABULAR, "destination": _TABULAR}),
}
_COMMANDS: dict[str, type] = {operation: command for command, (operation, _) in _FORMS.items()}

WAITING_COMMANDS = frozenset(_FORMS)
"""Classes of the commands that can wait."""
