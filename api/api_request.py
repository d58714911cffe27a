"""One request for one operation: the argument of all handlers."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sized
from dataclasses import replace
from typing import Any, TypeVar
from uuid import UUID

import orjson
from aiohttp import web

from ..access.authorization import Resource
from ..access.request_context import Principal, RequestContext
from ..access.warehouse import Warehouse
from ..commands.execution.command_response import CommandResponse
from ..commands.execution.executor import CommandExecutor
from ..domain.byte_pieces import Content, joined, memory_bytes_of
from ..domain.errors import BadRequest
from ..domain.identifiers import uuid_or_none
from ..domain.project import PROJECT_ID_DEFAULT, no_such_project
from ..queries.load_project import check_project, project_of_warehouse
from .bodies import BodyReader, read_json_object
from .byte_budget import BODY_RESERVATION, UNCOUNTED_BYTES_MAX, BudgetReservation, ByteBudget, ContentReservation, LargeResponses
from .catalog import CATALOG, Catalog
from .compression import GzipCache, accepts_gzip, compress
from .edge import STATISTICS_SCOPE
from .path_parameters import (
    check_parameters,
    decode_segment,
    names_project,
    normalize_separator,
    parameter_values,
    parse_query,
    parse_warehouse_reference,
)
from .piece_payload import PiecePayload
from .request_ids import REQUEST_ID, safe_text_or_none
from .routing import Operation

SEPARATOR: web.AppKey[str | None] = web.AppKey("separator")
"""The namespace separator that is accepted besides the specification's; None: no other."""

BODY_BUDGET: web.AppKey[ByteBudget] = web.AppKey("body_budget", ByteBudget)
RESPONSE_BUDGET: web.AppKey[ByteBudget] = web.AppKey("response_budget", ByteBudget)
LARGE_RESPONSES: web.AppKey[LargeResponses] = web.AppKey("large_responses", LargeResponses)

GZIP_CACHE: web.AppKey[GzipCache] = web.AppKey("gzip_cache")

POSITION_HEADER = "Icecore-Position"
PROJECT_HEADER = "x-project-id"
PROJECT_PARAMETER = "projectId"
"""Names the project like the header, for clients that send none, in operations that have this parameter."""

_OF_WAREHOUSE = frozenset({"prefix", "warehouse_or_project", "warehouse_in_project"})
"""The placeholders of paths that name the warehouse."""
_WHOLE_BYTES_MAX = 16 * 1024
"""Responses up to this size are written in one piece."""

Command = TypeVar("Command")
Execute = Callable[[CommandExecutor, RequestContext, Warehouse, Command], Awaitable[CommandResponse]]


class ApiRequest:
    """A request that matched an operation.

    app -- the application, which holds what all requests share. http_request -- aiohttp's request.
    segments -- the encoded path segments by placeholder; api/path_parameters.py parses them.
    context -- the principal and the operation; a command's context also has its Idempotency-Key.
    response_reservation -- memory reserved for the response before it is built: as much as it took the last time, or by `reserve_memory`,
        until the response itself is counted.
    shared_reservation -- the same for a response that shares most of its bytes with others; those bytes are counted once.
    """

    __slots__ = (
        "_query",
        "_requested_project",
        "app",
        "catalog",
        "context",
        "http_request",
        "operation",
        "response_reservation",
        "segments",
        "shared_reservation",
    )

    def __init__(
        self, app: web.Application, http_request: web.Request, principal: Principal, operation: Operation, segments: Mapping[str, str]
    ) -> None:
        self.app, self.http_request, self.operation, self.segments = app, http_request, operation, segments
        self.catalog: Catalog = app[CATALOG]
        self.context = self._context(principal)
        self._query: Mapping[str, str] | None = None
        self.response_reservation: BudgetReservation | None = None
        self.shared_reservation: ContentReservation | None = None
        if operation.parameters is not None:
            check_parameters(http_request.rel_url.raw_query_string, operation.parameters, repeatable=operation.repeatable)
        separator = app[SEPARATOR]
        if separator is not None and "namespace" in segments:
            self.segments = {**segments, "namespace": normalize_separator(segments["namespace"], separator)}

    def _context(self, principal: Principal) -> RequestContext:
        headers = self.http_request.headers
        project_id = None if self.operation.public or self.operation.of_server else self._named_project()
        self._requested_project = str(project_id or "")
        return RequestContext(
            request_id=self.http_request[REQUEST_ID],
            project_id=PROJECT_ID_DEFAULT if project_id is None else project_id,
            project_resolved=project_id is not None,
            principal=principal,
            operation=self.operation.name,
            correlation_id=safe_text_or_none(headers.get("X-Correlation-Id")),
            traceparent=safe_text_or_none(headers.get("traceparent")),
        )

    def _named_project(self) -> UUID | None:
        """The id in the path, the header or the parameter; None if there is none. Raises BadRequest if they differ."""
        texts = [*self.http_request.headers.getall(PROJECT_HEADER, ())]
        if PROJECT_PARAMETER in (self.operation.parameters or ()):
            texts += parameter_values(self.http_request.rel_url.raw_query_string, PROJECT_PARAMETER)
        if "project_id" in self.segments:
            texts.append(decode_segment(self.segments["project_id"], "project id"))
        if not texts:
            return None
        named = {uuid_or_none(text) or text for text in texts}
        if len(named) > 1:
            raise _two_projects()
        (project_id,) = named
        if isinstance(project_id, str):
            raise no_such_project(project_id) if project_id else BadRequest("Invalid project id: must not be empty")
        return project_id

    async def resolve_project(self, named: str | None = None) -> None:
        """Checks the request's project before anything is read of it. Raises NoSuchProject, and BadRequest if there is none.

        named -- the project's id in the body, if it has one.
        """
        if named is not None:
            project_id = uuid_or_none(named)
            if project_id is None:
                raise no_such_project(named)
            if self.context.project_resolved and self.context.project_id != project_id:
                raise _two_projects()
            self.context = replace(self.context, project_id=project_id, project_resolved=True)
        segment = self.segments.get("warehouse_id")
        warehouse_id = None if segment is None else uuid_or_none(decode_segment(segment, "warehouse id"))
        if self.context.project_resolved or not await self._resolve_project_of_path(warehouse_id):
            if self._lacks_project:
                raise _no_project()
            await check_project(self.catalog.queries, self.context)
            self.context = replace(self.context, project_resolved=True)
        self.http_request[STATISTICS_SCOPE] = (self.context.project_id, warehouse_id)

    async def _resolve_project_of_path(self, warehouse_id: UUID | None) -> bool:
        """Sets the project of the request to that of the warehouse whose id is in the path. Returns whether there is one."""
        project_id = None if warehouse_id is None else await project_of_warehouse(self.catalog.queries, warehouse_id)
        if project_id is None:
            return False
        self.context = replace(self.context, project_id=project_id, project_resolved=True)
        return True

    @property
    def _lacks_project(self) -> bool:
        """Whether the request must name a project and does not."""
        return not self.context.project_resolved and not self.catalog.default_project_enabled

    @property
    def query(self) -> Mapping[str, str]:
        if self._query is None:
            self._query = parse_query(self.http_request.rel_url.raw_query_string)
            separator = self.app[SEPARATOR]
            if separator is not None and "parent" in self._query:
                self._query = {**self._query, "parent": normalize_separator(self._query["parent"], separator)}
        return self._query

    async def read_body_fields(self) -> tuple[bytes, BodyReader]:
        """The body as it was received, and a reader of its fields."""
        limits = self.catalog.limits
        reservation = self.http_request[BODY_RESERVATION] = BudgetReservation(self.app[BODY_BUDGET])
        body, document = await read_json_object(self.http_request, limits, reservation)
        return body, BodyReader(document, limits)

    async def authorize(self, *resources: Resource) -> None:
        """Raises Forbidden unless the principal may do this to the resources. For operations that run no command and no query."""
        await self.catalog.queries.authorize(self.context, *resources)

    async def warehouse(self, *, or_inactive: bool = False) -> Warehouse:
        """The warehouse that `{prefix}` refers to, as in named_warehouse."""
        prefix = self.segments.get("prefix")
        return await self.named_warehouse(None if prefix is None else decode_segment(prefix, "warehouse"), or_inactive=or_inactive)

    async def named_warehouse(self, name: str | None, *, or_inactive: bool = False) -> Warehouse:
        """The warehouse that a request names; without a name that of the base path, or the only one. Raises BadRequest if they differ.

        A base path with a position or time pins the request to that past state. Unless `or_inactive`, an inactive one is refused.
        """
        base = self._base_warehouse()
        of_base = None if base is None else await self._resolve(base, or_inactive)
        if of_base is not None and name is None:
            return of_base
        named = await self._resolve(name, or_inactive)
        if of_base is None:
            return named
        if named.id != of_base.id:
            raise BadRequest(f"Invalid warehouse '{name}': the base path already names warehouse '{of_base.name}'")
        if of_base.as_of is None or named.as_of == of_base.as_of:
            return named
        if named.as_of is not None:
            raise BadRequest(f"Invalid warehouse '{name}': the base path already names the past state '{of_base.prefix}'")
        return of_base

    async def _resolve(self, name: str | None, or_inactive: bool) -> Warehouse:
        reference = None if name is None else parse_warehouse_reference(name)
        if self._lacks_project and (reference is None or not names_project(reference)):
            raise _no_project()
        if self.operation.mutates and (cached := self.catalog.queries.cached_warehouse(self.context, reference)) is not None:
            self._adopt_project_of(cached)
            return cached
        warehouse, self.context = await self.catalog.queries.resolve_warehouse(self.context, reference)
        if not warehouse.active and not or_inactive:
            raise warehouse.inactive_error()
        self._adopt_project_of(warehouse)
        return warehouse

    def _adopt_project_of(self, warehouse: Warehouse) -> None:
        """If the request names no project, uses that of its warehouse. Statistics count the request for the warehouse."""
        self.http_request[STATISTICS_SCOPE] = (warehouse.project_id, warehouse.id)
        if warehouse.project_id != self.context.project_id:
            self.context = replace(self.context, project_id=warehouse.project_id, project_resolved=True)

    def _base_warehouse(self) -> str | None:
        """The warehouse of the base path, decoded, with its project if the path has one."""
        first, second = self.segments.get("warehouse_or_project"), self.segments.get("warehouse_in_project")
        if first is None or second is None:
            return None if first is None else decode_segment(first, "warehouse")
        return f"{decode_segment(first, 'project')}/{decode_segment(second, 'warehouse')}"

    def _names(self) -> list[str]:
        """The names in the path, decoded, without those of the warehouse."""
        return [decode_segment(segment, name) for name, segment in self.segments.items() if name not in _OF_WAREHOUSE]

    @property
    def response_key(self) -> tuple[str, ...] | None:
        """The operation, its object and what else decides the size of the response, decoded. All reads of a past state (`@`) share one.

        None if the last response says nothing about the next. GET only: the path of a POST does not identify its response.
        """
        operation = self.operation
        if operation.method != "GET" or operation.long_lived or operation.sized_by is None:
            return None
        base, base_at, _ = (self._base_warehouse() or "").partition("@")
        name, at, _ = decode_segment(self.segments.get("prefix", ""), "warehouse").partition("@")
        parameters = (self.query.get(parameter) or default for parameter, default in operation.sized_by)
        return operation.name, at or base_at, self._requested_project, name or base, *parameters, *self._names()

    def _idempotency_key(self) -> UUID | None:
        texts = self.http_request.headers.getall("Idempotency-Key", ())
        if not texts:
            return None
        key = uuid_or_none(texts[0]) if len(texts) == 1 else None
        if key is None:
            raise BadRequest("Invalid header 'Idempotency-Key': must be one UUID of 36 characters")
        return key

    def _request_hash(self, warehouse: Warehouse | None, body: bytes, options: tuple[bool | None, ...]) -> bytes:
        """sha256 of what the request does: spellings of the same path (`+` or `%20`, name or id of the warehouse) have the same hash."""
        target = orjson.dumps([self.operation.name, None if warehouse is None else str(warehouse.id), self._names(), options])
        return hashlib.sha256(len(target).to_bytes(8, "big") + target + body).digest()

    def command_context(self, warehouse: Warehouse | None, body: bytes, options: tuple[bool | None, ...]) -> RequestContext:
        """The context with the Idempotency-Key, and with the size of the body."""
        key = self._idempotency_key()
        return replace(
            self.context,
            idempotency_key=key,
            request_hash=b"" if key is None else self._request_hash(warehouse, body, options),
            body_bytes=len(body),
            # Not in the request's own context: the two would form a reference cycle.
            reserve_memory=self.reserve_memory,
        )

    async def execute(
        self, run: Execute[Command], command: Command, *, body: bytes = b"", options: tuple[bool | None, ...] = ()
    ) -> web.Response:
        """Runs a command and returns its result as a response.

        options -- the query parameters that change what it does; None for one that is left out, where that does not mean false.
        """
        # The command refuses an inactive one, after looking up its Idempotency-Key.
        warehouse = await self.warehouse(or_inactive=True)
        # A response repeats most of the request's body.
        self.reserve_memory(len(body))
        result = await run(self.catalog.commands, self.command_context(warehouse, body, options), warehouse, command)
        return await self.command_response(result)

    async def command_response(self, result: CommandResponse) -> web.Response:
        """The result of a command as a response."""
        # 0: the command does not use the log (reportMetrics).
        headers = {POSITION_HEADER: str(result.position)} if result.position else {}
        if result.etag is not None:
            headers["ETag"] = result.etag
        if result.body is None:
            return web.Response(status=result.status, headers=headers)
        return await self.json_bytes(result.body, status=result.status, headers=headers, budgeted=result.replayed)

    def reserve_memory(self, size: int, shared: Sized | None = None) -> None:
        """Reserves `size` bytes in total for the response before it is built. Raises BudgetExhausted; call it before anything is changed.

        shared -- identifies the bytes, if other responses contain them too.
        """
        if size <= UNCOUNTED_BYTES_MAX:
            return
        if shared is not None:
            if self.shared_reservation is not None:
                self.shared_reservation.release()
            self.shared_reservation = self.app[RESPONSE_BUDGET].reserve_content(shared)
        else:
            if self.response_reservation is None:
                self.response_reservation = BudgetReservation(self.app[RESPONSE_BUDGET])
            self.response_reservation.raise_to(size)

    async def json_bytes(
        self,
        body: Content,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        keep_compressed: bool = False,
        budgeted: bool = False,
    ) -> web.Response:
        """`body` as a response, compressed if the client accepts gzip and the body is large enough.

        budgeted -- raises BudgetExhausted if the budget for responses is exhausted, even if the operation is not a read.
        """
        limits = self.catalog.limits
        headers = headers if headers is not None else {}
        headers["Content-Type"] = "application/json"
        budgeted = budgeted or not self.operation.mutates
        reservation = self._reserve_response(body) if budgeted and len(body) > UNCOUNTED_BYTES_MAX else None
        if reservation is None and self.response_reservation is not None:
            # It was large the last time.
            self._note_size(len(body))
        # The response to a change has its memory reserved already, from before the change.
        before = [each for each in (self.response_reservation, self.shared_reservation) if each is not None and reservation is None]
        if len(body) >= limits.gzip_bytes_min:
            headers["Vary"] = "Accept-Encoding"
            if accepts_gzip(self.http_request.headers.get("Accept-Encoding")):
                headers["Content-Encoding"] = "gzip"
                try:
                    body = await (self.app[GZIP_CACHE].compressed(body) if keep_compressed else compress(body, limits))
                finally:
                    if reservation is not None:
                        reservation.release()
                reservation = (
                    self.app[RESPONSE_BUDGET].reserve_content(body) if reservation is not None and len(body) > UNCOUNTED_BYTES_MAX else None
                )
        if len(body) <= _WHOLE_BYTES_MAX:
            return web.Response(body=joined(body), status=status, headers=headers)
        return web.Response(
            body=PiecePayload(body, *before, *(() if reservation is None else (reservation,))), status=status, headers=headers
        )

    def _reserve_response(self, body: Content) -> ContentReservation:
        """Counts a response against the budget. The response to a change is reserved before instead, since 429 would be wrong after it."""
        if self.response_reservation is not None:
            self.response_reservation.release()
        self._note_size(memory_bytes_of(body))
        return self.app[RESPONSE_BUDGET].reserve_content(body)

    def _note_size(self, size: int) -> None:
        key = self.response_key
        if key is not None:
            # Reads of a past state share one entry, but their responses differ in size.
            self.app[LARGE_RESPONSES].note(key, size, varies=bool(key[1]))

    async def json(self, document: Any) -> web.Response:
        return await self.json_bytes(orjson.dumps(document))


def _no_project() -> BadRequest:
    return BadRequest(
        f"The request names no project: send its id in the header {PROJECT_HEADER}, or use <project>/<warehouse> as `warehouse`"
    )


def _two_projects() -> BadRequest:
    return BadRequest("The request names more than one project: name one, in the header, the path, the query or the body")
