"""A story: the statements of a user of an engine, in order, each with its expected result."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Rows = list[list[Any]]


@dataclass(frozen=True)
class Step:
    """One statement.

    rows -- the exact result.
    among -- rows that the result must contain.
    refused -- part of the error's text. All None: the statement succeeds.
    remember -- the name for the first column of the first row, for later steps, which write it in braces.
    """

    name: str
    sql: str
    rows: Rows | None = None
    among: Rows | None = None
    refused: str | None = None
    remember: str | None = None


@dataclass(frozen=True)
class Result:
    """The outcome of one statement: its rows, or the text of its error."""

    rows: Rows
    error: str | None = None


def tell(steps: tuple[Step, ...], sql: Callable[[str], Rows], refusal: type[Exception], **known: str) -> dict[str, Result]:
    """Runs every step, also after one that failed, and returns the outcomes by name. `known` are values for names in braces."""
    remembered = dict(known)
    results: dict[str, Result] = {}
    for step in steps:
        statement = step.sql
        for name, value in remembered.items():
            statement = statement.replace("{" + name + "}", value)
        try:
            results[step.name] = Result(sql(statement))
        except refusal as error:
            results[step.name] = Result([], str(error))
        if step.remember and results[step.name].rows:
            remembered[step.remember] = str(results[step.name].rows[0][0])
    return results


def check(step: Step, result: Result) -> None:
    """Asserts that the outcome of the step is the expected one."""
    if step.refused is not None:
        assert result.error is not None, f"expected an error with {step.refused!r}, got {result.rows}"
        assert step.refused in result.error, f"expected an error with {step.refused!r}, got: {result.error}"
        return
    assert result.error is None, result.error
    if step.rows is not None:
        assert step.rows == result.rows, f"expected {step.rows}, got {result.rows}"
    for row in step.among or ():
        assert row in result.rows, f"expected {row} among {result.rows}"
