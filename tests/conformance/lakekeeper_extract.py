"""Makes `openapi/lakekeeper-management.json`, what Lakekeeper's OpenAPI document of the management API says without its texts:

python -m tests.conformance.lakekeeper_extract <a git directory of lakekeeper/lakekeeper> v0.13.1
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

EXTRACT = Path(__file__).parent / "openapi" / "lakekeeper-management.json"
DOCUMENT = "docs/docs/api/management-open-api.yaml"
METHODS = ("get", "post", "put", "patch", "delete")
_JSON = "application/json"
_WORDS = frozenset(
    {
        "$ref",
        "type",
        "format",
        "enum",
        "const",
        "required",
        "deprecated",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
    }
)
"""Keywords of a schema that are kept as they are."""


def condensed_schema(schema: Any) -> Any:
    """The schema without descriptions, titles, examples and defaults."""
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    for word, value in schema.items():
        if word in _WORDS:
            found[word] = value
        elif word == "properties":
            found[word] = {name: condensed_schema(each) for name, each in value.items()}
        elif word in ("items", "additionalProperties"):
            found[word] = condensed_schema(value)
        elif word in ("oneOf", "anyOf", "allOf"):
            found[word] = [condensed_schema(each) for each in value]
    return found


def condensed_operation(operation: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters, the schema of the request, and the schemas of successful responses by status; null: without a body."""
    body = operation.get("requestBody")
    return {
        "parameters": [
            {"name": each["name"], "in": each["in"], "required": each.get("required", False), "schema": condensed_schema(each["schema"])}
            for each in operation.get("parameters", ())
        ],
        "request": None if body is None else condensed_schema(body["content"][_JSON]["schema"]),
        "responses": {
            status: condensed_schema(response["content"][_JSON]["schema"]) if "content" in response else None
            for status, response in operation["responses"].items()
            if status.startswith("2")
        },
    }


def condensed(document: Mapping[str, Any], revision: str, commit: str) -> dict[str, Any]:
    return {
        "source": {"repository": "lakekeeper/lakekeeper", "revision": revision, "commit": commit, "path": DOCUMENT},
        "operations": {
            f"{method.upper()} {path}": condensed_operation(item[method])
            for path, item in document["paths"].items()
            for method in METHODS
            if method in item
        },
        "components": {"schemas": {name: condensed_schema(each) for name, each in document["components"]["schemas"].items()}},
    }


def written(extract: Mapping[str, Any]) -> str:
    """The extract as JSON, with one line for each operation and schema, so that a later version can be compared."""

    def members(values: Mapping[str, Any], indent: str) -> str:
        lines = (f"{indent}{json.dumps(name)}: {json.dumps(values[name], sort_keys=True)}" for name in sorted(values))
        return ",\n".join(lines)

    source, operations, schemas = extract["source"], extract["operations"], extract["components"]["schemas"]
    return (
        f'{{\n  "source": {json.dumps(source)},\n  "operations": {{\n{members(operations, "    ")}\n  }},\n'
        f'  "components": {{\n    "schemas": {{\n{members(schemas, "      ")}\n    }}\n  }}\n}}\n'
    )


def main(directory: str, revision: str) -> None:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", directory, *arguments], check=True, capture_output=True, text=True).stdout

    commit = git("rev-parse", f"{revision}^{{commit}}").strip()
    EXTRACT.write_text(written(condensed(yaml.safe_load(git("show", f"{commit}:{DOCUMENT}")), revision, commit)))


if __name__ == "__main__":
    main(*sys.argv[1:])
