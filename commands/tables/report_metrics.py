"""ReportMetrics: takes scan and commit reports of engines, which are stored unchanged in the background."""

from dataclasses import dataclass

from ...access.authorization import Resource
from ...access.request_context import RequestContext
from ...access.warehouse import Warehouse
from ...domain.identifiers import TabularIdentifier
from ...projections import names
from ..execution.command_response import CommandResponse
from ..execution.executor import CommandExecutor
from .metrics_reports import OTHER_TYPE, REPORT_TYPES, MetricsReport


@dataclass(frozen=True, slots=True)
class ReportMetrics:
    """`report` -- the request's body, a ReportMetricsRequest. `report_type` -- the member `report-type` of it."""

    table: TabularIdentifier
    report_type: str
    report: bytes


async def report_metrics(
    executor: CommandExecutor, context: RequestContext, warehouse: Warehouse, command: ReportMetrics
) -> CommandResponse:
    """204: the report is in the queue. It is lost if the queue is full, or if the server ends before it is written (metrics_reports.py).

    There is no event, because the catalog does not change. Raises NoSuchWarehouse if the warehouse is inactive, and NoSuchTable.
    """
    if not warehouse.active:
        raise warehouse.inactive_error()
    async with executor.connection() as connection:
        table_id = await names.find_table(connection, warehouse.name_lookup, command.table)
    await executor.authorize(context, [Resource("table", table_id)])
    report_type = command.report_type if command.report_type in REPORT_TYPES else OTHER_TYPE
    report = MetricsReport(table_id, warehouse.id, context.principal.id, report_type, command.report)
    executor.metrics_reports.enqueue(report)
    return CommandResponse(204, None, 0)
