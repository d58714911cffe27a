"""Reads the JSON object of a profile or a credential, field by field, and refuses by name."""

from typing import Any

from domain.errors import BadRequest
from storage.locations import StorageLocation, refuse_location

ALLOWED_LOCATIONS_MAX = 100
"""Entries of a profile's `allowed-locations`."""


class ProfileFields:
    """A reader of one JSON object that refuses, by name, what is missing, of the wrong type or unknown."""

    def __init__(self, json: object, what: str = "storage-profile") -> None:
        if not isinstance(json, dict):
            raise BadRequest(f"Invalid {what}: must be an object")
        self._left: dict[str, Any] = {key: value for key, value in json.items() if value is not None}
        self._what = what

    def refusal(self, name: str, rule: str) -> BadRequest:
        return BadRequest(f"Invalid {self._what}: {name} {rule}")

    def text(self, name: str) -> str:
        value = self.optional_text(name)
        if value is None:
            raise self.refusal(name, "is missing")
        return value

    def optional_text(self, name: str) -> str | None:
        value = self._left.pop(name, None)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.refusal(name, "must be a text, not empty")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._left.pop(name, default)
        if not isinstance(value, bool):
            raise self.refusal(name, "must be true or false")
        return value

    def number(self, name: str, default: int, minimum: int, maximum: int) -> int:
        value = self._left.pop(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise self.refusal(name, f"must be a whole number from {minimum} to {maximum}")
        return value

    def choice(self, name: str, default: str, choices: tuple[str, ...]) -> str:
        value = self._left.pop(name, default)
        if value not in choices:
            raise self.refusal(name, f"must be one of {', '.join(choices)}")
        return str(value)

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._left.pop(name, {})
        if not isinstance(value, dict):
            raise self.refusal(name, "must be an object")
        return value

    def allowed_locations(self, kind: str) -> tuple[StorageLocation, ...]:
        value = self._left.pop("allowed-locations", [])
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise self.refusal("allowed-locations", "must be a list of locations")
        if len(value) > ALLOWED_LOCATIONS_MAX:
            raise self.refusal("allowed-locations", f"has more than {ALLOWED_LOCATIONS_MAX} entries")
        what = f"{self._what}: allowed-locations"
        allowed = tuple(StorageLocation.parse_base(entry, what=what) for entry in value)
        for location in allowed:
            if not location.key.startswith(f"{kind}:"):
                raise refuse_location(what, f"must be of the profile's own kind of store ({kind})", location.spelled)
            if kind == "file" and not location.segments:
                raise refuse_location(what, "must not be the root of the file system", location.spelled)
        return allowed

    def end(self) -> None:
        if self._left:
            raise self.refusal(repr(min(self._left)), "is not a field of it")
