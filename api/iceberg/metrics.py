"""Metrics: scan and commit reports of engines (spec: /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics)."""

from aiohttp import web

from ...commands.tables.report_metrics import ReportMetrics
from ...commands.tables.report_metrics import report_metrics as execute_report_metrics
from ...domain.errors import PayloadTooLarge
from ..api_request import ApiRequest
from .tables import existing_table


async def report_metrics(request: ApiRequest) -> web.Response:
    """Takes a report, to be stored unchanged in the background. Only its size and its `report-type` are checked."""
    body, fields = await request.read_body_fields()
    limits = request.catalog.limits
    if len(body) > limits.report_bytes_max:
        raise PayloadTooLarge(f"Invalid body: a metrics report may have at most {limits.report_bytes_max} bytes")
    command = ReportMetrics(table=existing_table(request), report_type=fields.text("report-type"), report=body)
    return await request.execute(execute_report_metrics, command, body=body)
