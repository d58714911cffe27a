"""Help of the commands: the names of arguments, and a text for each argument and option."""

import re
from collections.abc import Iterator

import pytest
from cyclopts import App, Argument

from icecore.cli import app
from tests.servers.paths import ROOT

NEW = {"project create", "warehouse create"}
"""Commands whose NAME is that of a new object."""

_WAREHOUSE = "Name or id of the warehouse."
_PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text()


def commands(parent: App = app, name: tuple[str, ...] = ()) -> Iterator[tuple[str, App]]:
    """Every command that does something, by its name."""
    if parent.default_command is not None and name:
        yield " ".join(name), parent
    for each in parent:
        if not each.startswith("-"):
            yield from commands(parent[each], (*name, each))


COMMANDS = dict(commands())


def shown(command: App) -> list[Argument]:
    """The arguments and options that its help shows."""
    return [each for each in command.assemble_argument_collection(parse_docstring=True) if each.show]


def positional(command: App) -> list[Argument]:
    return [each for each in shown(command) if not each.names[0].startswith("-")]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_and_option_has_a_text(name: str) -> None:
    """In the help of the command."""
    assert [] == [each.names[0] for each in shown(COMMANDS[name]) if not each.parameter.help]


@pytest.mark.parametrize("name", COMMANDS)
def test_an_argument_is_named_after_its_kind(name: str) -> None:
    """WAREHOUSE, PROJECT, SINK and so on; NAME is the name of a new object."""
    arguments = positional(COMMANDS[name])
    names = [each.names[0] for each in arguments]
    assert (name in NEW) == ("NAME" in names)
    assert all((each.parameter.help == _WAREHOUSE) == (each.names[0] == "WAREHOUSE") for each in arguments)


def test_a_switch_shows_no_default() -> None:
    """It is off unless it is given."""
    switches = [each for command in COMMANDS.values() for each in shown(command) if each.hint is bool]
    assert len(switches) > 50
    assert [] == [each.names[0] for each in switches if each.parameter.show_default is not False and each.field_info.default is False]


@pytest.mark.parametrize("usage", re.findall(r"^\| `icecore ([a-z][^`]*)`", _PAGE, re.MULTILINE))
def test_page_names_the_arguments_of_the_command(usage: str) -> None:
    """As in its help, in their order."""
    words = re.sub(r" --\S+( [A-Z0-9]\S*)?", "", usage).split()
    name = " ".join(word for word in words if word.islower())
    assert [each.names[0] for each in positional(COMMANDS[name])] == [word for word in words if not word.islower()]
