"""Failures below the application, where HTTP itself is broken: answered like every other, and without echoing what was sent."""

from collections.abc import Callable
from typing import Any

import structlog
from aiohttp import web

from api.draining import Draining
from api.edge import Edge, Handler
from api.errors import error_response
from api.origins import ORIGIN_RULES
from api.request_figures import REQUEST_FIGURES
from api.request_ids import name_answer, request_id_of
from domain.errors import BadRequest, CatalogError, InternalError

_log: structlog.stdlib.BoundLogger = structlog.get_logger("icecore.api")


class EdgeProtocol(web.RequestHandler):
    """aiohttp's connection handler, whose own error page and log line would repeat header lines, credentials among them."""

    __slots__ = ()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is on its way already")
        request_id = request_id_of(None)
        refusal: CatalogError
        if status < 500:
            refusal = BadRequest("The request is not well-formed HTTP, or its line or a header is too long")
            _log.info("request_malformed", request_id=request_id, error=type(exc).__name__)
        else:
            refusal = InternalError("Something broke that should not have; the request id finds it in the logs")
            _log.error("request_failed", request_id=request_id, exc_info=exc)
        response = error_response(refusal)
        name_answer(response, request_id)
        response.force_close()
        return response


class _EdgeServer(web.Server):
    def __call__(self) -> web.RequestHandler:
        return EdgeProtocol(self, loop=self._loop, **self._kwargs)


class EdgeRunner(web.AppRunner):
    """An AppRunner whose connections are EdgeProtocols, and whose requests go to an Edge before the application's own handler.

    handler_over -- makes the handler of requests of the one that the application has.
    draining -- the requests in flight.
    """

    __slots__ = ("_handler_over", "draining")

    def __init__(self, app: web.Application, handler_over: Callable[[Handler], Handler], **settings: Any) -> None:
        super().__init__(app, **settings)
        self._handler_over = handler_over
        self.draining = Draining()

    async def _make_server(self) -> web.Server:
        server: Any = await super()._make_server()
        edge = Edge(self._handler_over(server.request_handler), self.app[REQUEST_FIGURES], self.draining, self.app[ORIGIN_RULES])
        # The requests are the application's, web.Request: its request_factory makes them.
        answer: Any = edge.answer
        return _EdgeServer(answer, request_factory=server.request_factory, loop=server._loop, **server._kwargs)
