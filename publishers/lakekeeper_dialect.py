"""Lakekeeper's event types: the same data and ids under Lakekeeper's names.

CloudEvents does not allow hyphens in attributes, so `tabular-id`, `warehouse-id` and others lose theirs.
"""

from .enriched_event import EnrichedEvent

_TYPES = {
    "table.created": "createTable",
    "table.registered": "registerTable",
    "table.overwritten": "registerTable",
    "table.committed": "updateTable",
    "table.renamed": "renameTable",
    "table.dropped": "dropTable",
    "table.unregistered": "dropTable",
    "table.undropped": "undropTabulars",
    "view.created": "createView",
    "view.registered": "createView",
    "view.committed": "updateView",
    "view.renamed": "renameView",
    "view.dropped": "dropView",
    "view.undropped": "undropTabulars",
}


def lakekeeper_attributes(topic: str, enriched: EnrichedEvent) -> dict[str, str]:
    """Lakekeeper's type and extension attributes; events that Lakekeeper does not have keep Icecore's type."""
    kind = topic.partition(".")[0]
    named = _TYPES.get(topic.rpartition(".")[0])
    attributes = {} if named is None else {"type": named}
    if kind in ("table", "view"):
        attributes |= {
            "tabulartype": kind,
            "tabularid": str(enriched.event.stream_id),
            "warehouseid": str(enriched.event.warehouse_id),
            "namespace": ".".join(enriched.namespace),
            "name": enriched.path[-1],
        }
    return attributes
