"""Filters of sinks, replays, subscribers and hooks: kinds with `*` as a wildcard, warehouses and namespaces."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from .identifiers import NAME_CODE_POINTS_MAX, dotted_key, name_key

_PATTERN_LENGTH_MAX = 64
_WILDCARDS_MAX = 4


class FilterError(ValueError):
    """An invalid filter. `member` -- the invalid member of the filter, such as `namespaces`. `reason` -- the rule."""

    def __init__(self, member: str, reason: str) -> None:
        super().__init__(f"{member}: {reason}")
        self.member = member
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ScopeFilter:
    """Empty members match everything; all others must match.

    warehouses -- names or ids. namespaces -- dotted names; each includes the namespaces below it. Names match case-insensitively.
    """

    warehouses: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()

    @classmethod
    def parse(cls, warehouses: Sequence[str], namespaces: Sequence[str]) -> "ScopeFilter":
        """Raises FilterError for a name that is blank, a pattern or too long, which would silently match nothing."""
        for member, names in (("warehouses", warehouses), ("namespaces", namespaces)):
            for name in names:
                if not name.strip() or "*" in name or any(len(part) > NAME_CODE_POINTS_MAX for part in name.split(".")):
                    rule = "is not a name: a namespace includes those below it, and patterns are not supported"
                    raise FilterError(member, f"{name!r} {rule}")
        return cls(tuple(map(name_key, warehouses)), tuple(map(dotted_key, namespaces)))

    def matches(self, warehouse_id: UUID, warehouse_name: str, namespace_keys: Callable[[], Iterable[str]]) -> bool:
        """namespace_keys -- returns the dotted keys of the object's namespaces, of which one must match. Called only if needed."""
        if self.warehouses and not {str(warehouse_id), name_key(warehouse_name)} & set(self.warehouses):
            return False
        return not self.namespaces or any(
            mine == wanted or mine.startswith(f"{wanted}.") for mine in namespace_keys() for wanted in self.namespaces
        )


def kinds_like(patterns: Iterable[str], kinds: Collection[str], member: str) -> frozenset[str]:
    """The `kinds` that match one of the patterns. Raises FilterError for a pattern that matches none."""
    found: set[str] = set()
    for pattern in patterns:
        if len(pattern) > _PATTERN_LENGTH_MAX or pattern.count("*") > _WILDCARDS_MAX:
            raise FilterError(member, f"a pattern has at most {_PATTERN_LENGTH_MAX} characters, of which at most {_WILDCARDS_MAX} are '*'")
        like = {kind for kind in kinds if _is_like(kind, pattern)}
        if not like:
            raise FilterError(member, f"{pattern!r} matches none of {', '.join(sorted(kinds))}")
        found |= like
    return frozenset(found)


def _is_like(kind: str, pattern: str) -> bool:
    """`*` matches any text. fnmatch is not used, because it caches thousands of compiled patterns."""
    first, *others = pattern.split("*")
    if not others:
        return kind == pattern
    *middle, last = others
    if not kind.startswith(first):
        return False
    reached = len(first)
    for part in middle:
        found = kind.find(part, reached)
        if found < 0:
            return False
        reached = found + len(part)
    return kind.endswith(last) and len(kind) - len(last) >= reached
