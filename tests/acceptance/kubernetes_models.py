"""Compares manifests with the classes of Kubernetes' API that Spark contains. Runs in a process that has PySpark, and prints JSON:

`python -m tests.acceptance.kubernetes_models MANIFESTS` (YAML documents). What Kubernetes' server alone knows is not checked.
"""

import json
import sys
from typing import Any

import yaml
from pyspark.java_gateway import launch_gateway

MODEL = "io.fabric8.kubernetes.api.model."
CLASSES = {
    "ServiceAccount": f"{MODEL}ServiceAccount",
    "ConfigMap": f"{MODEL}ConfigMap",
    "Role": f"{MODEL}rbac.Role",
    "RoleBinding": f"{MODEL}rbac.RoleBinding",
    "CronJob": f"{MODEL}batch.v1.CronJob",
}
SCALARS: dict[str, type] = {
    "java.lang.String": str,
    "java.lang.Integer": int,
    "java.lang.Long": int,
    "java.lang.Boolean": bool,
}


class Models:
    """The classes, read as Jackson reads them."""

    def __init__(self) -> None:
        self._jvm = launch_gateway().jvm
        self._mapper = self._jvm.com.fasterxml.jackson.databind.ObjectMapper()

    def problems(self, manifest: dict[str, Any]) -> list[str]:
        """What the API does not know: kinds, versions, members and types of values."""
        kind = manifest["kind"]
        if kind not in CLASSES:
            return [f"unknown kind {kind}"]
        found = self._jvm.java.lang.Class.forName(CLASSES[kind])
        version = getattr(self._jvm, f"{MODEL}HasMetadata").getApiVersion(found)
        wrong = [] if version == manifest["apiVersion"] else [f"{kind}: apiVersion must be {version}"]
        return wrong + self._members(manifest, self._mapper.constructType(found), kind)

    def _members(self, value: Any, kind: Any, path: str) -> list[str]:
        if kind.isMapLikeType():
            return [each for key, part in value.items() for each in self._members(part, kind.getContentType(), f"{path}.{key}")]
        if kind.isCollectionLikeType():
            if not isinstance(value, list):
                return [f"{path} must be a list"]
            return [each for n, part in enumerate(value) for each in self._members(part, kind.getContentType(), f"{path}[{n}]")]
        name = kind.getRawClass().getName()
        if not name.startswith(MODEL):
            return [] if type(value) is SCALARS.get(name) else [f"{path} must be a {name}"]
        described = self._mapper.getDeserializationConfig().introspect(kind)
        known = {each.getName(): each.getPrimaryType() for each in described.findProperties()}
        return [
            each
            for key, part in value.items()
            for each in (self._members(part, known[key], f"{path}.{key}") if key in known else [f"{path} has no member {key}"])
        ]


def main(manifests: str) -> None:
    models = Models()
    print(json.dumps([each for manifest in yaml.safe_load_all(manifests) for each in models.problems(manifest)]))


if __name__ == "__main__":
    main(sys.argv[1])
