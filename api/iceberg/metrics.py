"""Metrics: scan and commit reports of engines (spec: /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics)."""

from aiohttp import web

from ...commands.tables.report_metrics import ReportMetrics
from ...commands.tables.report_metrics import report_metrics as execute_report_metrics
from ...domain.errors import PayloadTooLarge
from ..call import Call
from .tables import table_sought


async def report_metrics(call: Call) -> web.Response:
    """Take a report as it comes; only its size and its `report-type` are looked at."""
    body, fields = await call.fields()
    limits = call.catalog.limits
    if len(body) > limits.report_bytes_max:
        raise PayloadTooLarge(f"Invalid body: a metrics report may have {limits.report_bytes_max} bytes")
    fields.text("report-type")
    return await call.execute(execute_report_metrics, ReportMetrics(table=table_sought(call), report=body), body=body)
