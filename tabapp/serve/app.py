"""The web application: routes, access, and limits of each request."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tabapp.data.schema import Schema
from tabapp.errors import DataError, TabappError
from tabapp.headless.narration import sentence
from tabapp.printable import one_line
from tabapp.serve import metrics as metrics_module
from tabapp.serve.acceptance import acceptance_of
from tabapp.serve.access import Access
from tabapp.serve.bodies import (
    JSON,
    TEXT_COPIES,
    Body,
    TargetPart,
    accepted_type,
    encode_json,
    encode_predictions,
    encode_targets,
    is_short,
    media_type,
    notes_header,
)
from tabapp.serve.bundles import Bundles, ServedBundle
from tabapp.serve.examples import described_bundle
from tabapp.serve.limits import MOST_EXPLAINED, Limits, RequestError, busy
from tabapp.serve.openapi import document
from tabapp.serve.page import PAGE, POLICY
from tabapp.serve.slots import Memory, Share, Slot

DRAIN_SECONDS = 5.0
"""Time that a client with a refused body gets to read the answer before the connection is closed."""

_PLAIN_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}

_MOST_LOGGED_NOTES = 200

Log = Callable[[str], None]
Decode = Callable[[bytes, str, Schema, Limits], Body]
Endpoint = Callable[[Request], Awaitable[Response]]
Answer = tuple[bytes, dict[str, str]]
"""A body and its headers."""


class Application:
    """The routes of a server.

    Args:
        decode: decodes a body of a media type for a schema, within limits.
        log: receives one sentence for each unexpected error.
        log_request: receives a line for each request; None logs none.
    """

    def __init__(
        self,
        bundles: Bundles,
        limits: Limits,
        access: Access,
        decode: Decode,
        log: Log,
        log_request: Log | None = None,
    ) -> None:
        self._bundles = bundles
        self._limits = limits
        self._access = access
        self._decode = decode
        self._log = log
        self._log_request = log_request
        self._logged_notes: set[tuple[str, str]] = set()
        self._n_in_progress = 0
        self._memory = Memory(limits.max_memory)
        self._metrics = metrics_module.Metrics(bundles, lambda: self._n_in_progress)
        # Decoding is serial and predictions wait for a model process; a thread beyond that would only wait. Short bodies are not
        # kept waiting by others.
        self._decoding = {is_short: ThreadPoolExecutor(1, "decode") for is_short in (True, False)}
        self._predicting = {bundle.name: ThreadPoolExecutor(limits.workers, "predict") for bundle in bundles}

    def close(self) -> None:
        """Start no further work. The running one ends with its model process."""
        for pool in (*self._decoding.values(), *self._predicting.values()):
            pool.shutdown(wait=False, cancel_futures=True)

    def asgi(self) -> ASGIApp:
        """The application as a server calls it."""
        routes = [
            Route("/", self._page, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/metrics", self._read_metrics, methods=["GET"]),
            Route("/openapi.json", self._openapi, methods=["GET"]),
            Route("/bundles", self._list, methods=["GET"]),
            Route("/schema", self._schema, methods=["GET"]),
            Route("/predict", self._predict, methods=["POST"]),
            Route("/explain", self._explain, methods=["POST"]),
            Route("/bundles/{name}/schema", self._schema, methods=["GET"]),
            Route("/bundles/{name}/predict", self._predict, methods=["POST"]),
            Route("/bundles/{name}/explain", self._explain, methods=["POST"]),
        ]
        handlers: dict[Any, Any] = {
            HTTPException: self._http_error,
            RequestError: self._request_error,
            TabappError: self._tabapp_error,
            ClientDisconnect: self._disconnected,
            Exception: self._bug,
        }
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.router.redirect_slashes = False
        return _Gate(app, self._access, self)

    # --- routes ---

    async def _page(self, request: Request) -> Response:
        return Response(PAGE, media_type="text/html", headers={"Content-Security-Policy": POLICY})

    async def _health(self, request: Request) -> Response:
        found = {bundle.name: bundle.health() for bundle in self._bundles}
        is_ok = all(health.predicts for health in found.values())
        answer: dict[str, Any] = {"status": "ok" if is_ok else "degraded"}
        if self._access.is_authorized(request.headers.get("authorization")):
            answer["bundles"] = {
                name: {
                    "status": "ok" if health.predicts else "unavailable",
                    "problem": health.problem or None,
                    "sha256": health.digest,
                }
                for name, health in found.items()
            }
        return _json(answer, 200 if is_ok else 503)

    async def _read_metrics(self, request: Request) -> Response:
        return Response(
            await asyncio.to_thread(self._metrics.text), headers={"Content-Type": metrics_module.CONTENT_TYPE}
        )

    async def _openapi(self, request: Request) -> Response:
        return _json(document(self._bundles, self._limits, needs_token=self._access.token is not None))

    async def _list(self, request: Request) -> Response:
        names = [bundle.name for bundle in self._bundles]
        return _json({"bundles": names, "default": names[0]})

    async def _schema(self, request: Request) -> Response:
        bundle = self._bundle(request)
        return _json(described_bundle(bundle.name, bundle.version.contents, bundle.version.digest))

    async def _predict(self, request: Request) -> Response:
        served = self._bundles.of_file(request.path_params.get("name")) or [self._bundle(request)]
        sent = media_type(request.headers.get("content-type"))
        wanted = accepted_type(request.headers.get("accept"), sent)
        acceptance = acceptance_of(request, sent)

        def predict(body: Body) -> tuple[bytes, dict[str, str]]:
            parts: list[TargetPart] = []
            # Sentences about the input are the same for all targets.
            notes = dict.fromkeys(body.notes)
            digest = ""
            for bundle in served:
                prediction, version = bundle.predict(body.frame, acceptance)
                frame = version.processes[0].to_frame(prediction)
                parts.append(TargetPart(bundle.target, frame, version.contents.schema))
                notes |= dict.fromkeys(prediction.notes)
                digest = version.digest
                self._metrics.rows.labels(bundle.name).observe(body.frame.height)
            self._log_notes(served[0], notes)
            headers = {"X-Tabapp-Bundle": digest, **notes_header(tuple(notes))}
            if len(parts) == 1:
                return encode_predictions(parts[0].frame, wanted, parts[0].schema, tuple(notes)), headers
            return encode_targets(parts, wanted, tuple(notes)), headers

        content, headers = await self._answer(request, served[0], sent, self._limits, predict)
        return Response(content, media_type=wanted, headers=headers)

    async def _explain(self, request: Request) -> Response:
        bundle = self._bundle(request)
        sent = media_type(request.headers.get("content-type"))
        acceptance, label = acceptance_of(request, sent), request.query_params.get("class")

        def explain(body: Body) -> tuple[bytes, dict[str, str]]:
            found, digest = bundle.explain(body.frame, label, acceptance)
            notes = (*body.notes, *found["notes"])
            self._log_notes(bundle, notes)
            return encode_json({**found, "notes": list(notes)}), {"X-Tabapp-Bundle": digest, **notes_header(notes)}

        limits = replace(self._limits, max_rows=min(self._limits.max_rows, MOST_EXPLAINED))
        content, headers = await self._answer(request, bundle, sent, limits, explain)
        return Response(content, media_type=JSON, headers={**_PLAIN_HEADERS, **headers})

    async def _answer(
        self,
        request: Request,
        bundle: ServedBundle,
        sent: str,
        limits: Limits,
        work: Callable[[Body], Answer],
    ) -> Answer:
        """Read the body of a request, and do the work on its rows in other threads, within the limits."""
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise RequestError(
                415, "Compressed bodies are not supported. Send the body without Content-Encoding.", closes=True
            )
        with self._slot() as slot:
            content = await self._body(request, slot.memory)
            task = asyncio.create_task(self._work(bundle, content, sent, limits, work, slot.memory))
            # The work of a request that has timed out continues, so it keeps its place.
            slot.wait_for(task)
            done, _ = await asyncio.wait([task], timeout=limits.seconds)
            if not done:
                raise busy(f"The prediction took longer than {limits.seconds:g} s. Send fewer rows at once.")
            return task.result()

    async def _work(
        self,
        bundle: ServedBundle,
        content: bytes,
        sent: str,
        limits: Limits,
        work: Callable[[Body], Answer],
        memory: Share,
    ) -> Answer:
        loop = asyncio.get_running_loop()
        schema = bundle.version.contents.schema
        pool = self._decoding[is_short(content, sent)]
        body = await loop.run_in_executor(pool, self._decode, content, sent, schema, limits)
        memory.grow(TEXT_COPIES * int(body.frame.estimated_size()))
        return await loop.run_in_executor(self._predicting[bundle.name], work, body)

    # --- parts of a request ---

    def _bundle(self, request: Request) -> ServedBundle:
        name = request.path_params.get("name")
        bundle = self._bundles.get(name)
        if bundle is None:
            known = ", ".join(each.name for each in self._bundles)
            raise RequestError(404, f"There is no bundle {name!r}. Use one of {known}.", closes=True)
        return bundle

    @contextmanager
    def _slot(self) -> Generator[Slot]:
        if self._n_in_progress >= self._limits.concurrency:
            raise RequestError(
                503, "Too many predictions are in progress. Try again later.", {"Retry-After": "1"}, True
            )
        self._n_in_progress += 1
        share = Share(self._memory)

        def free() -> None:
            share.end()
            self._n_in_progress -= 1

        slot = Slot(free, share)
        try:
            yield slot
        finally:
            slot.end()

    async def _body(self, request: Request, memory: Share) -> bytes:
        """Read the body within the limits."""
        length = request.headers.get("content-length", "")
        too_long = RequestError(
            413, f"The body is longer than {self._limits.max_body:,} bytes. Send several requests.", closes=True
        )
        if length.isdecimal() and (len(length) > 18 or int(length) > self._limits.max_body):
            raise too_long
        content = bytearray()
        try:
            async with asyncio.timeout(self._limits.seconds):
                async for chunk in request.stream():
                    content += chunk
                    memory.grow(len(chunk))
                    if len(content) > self._limits.max_body:
                        raise too_long
        except TimeoutError:
            raise RequestError(
                408, f"The body did not arrive within {self._limits.seconds:g} s. Send it faster.", closes=True
            ) from None
        if not content:
            raise RequestError(400, 'The body is empty. Send {"rows": [{COLUMN: value, …}, …]} or a table.')
        return bytes(content)

    # --- errors ---

    async def _request_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError)
        return error_response(error)

    async def _http_error(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        path = one_line(request.url.path)
        if error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "")
            message = f"{path} does not support {one_line(request.method)}. Use {allowed}."
        elif error.status_code == 404:
            message = f"There is no address {path}. GET /openapi.json lists all addresses."
        else:
            message = f"{error.detail}."
        return error_response(RequestError(error.status_code, message, dict(error.headers or {}), closes=True))

    async def _tabapp_error(self, request: Request, error: Exception) -> Response:
        if isinstance(error, DataError):
            return error_response(RequestError(422, str(error)))
        return error_response(RequestError(400, str(error)))

    async def _disconnected(self, request: Request, error: Exception) -> Response:
        return error_response(RequestError(400, "The client has closed the connection."))

    async def _bug(self, request: Request, error: Exception) -> Response:
        # Starlette raises the error again after this answer, and the gate logs it.
        return error_response(RequestError(500, "This is a bug in tabapp; see the log of the server."))

    # --- counting ---

    def count(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request, and log it if requests are logged."""
        route, method = _route_of(scope["path"]), scope["method"]
        method = method if method in ("GET", "HEAD", "POST") else "other"
        self._metrics.requests.labels(route, method, status).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        if self._log_request is not None:
            client = (scope.get("client") or ("-",))[0]
            path = one_line(scope["path"])
            self._log_request(f"{client} {one_line(scope['method'])} {path} {status} {1000 * seconds:.0f} ms")

    def _log_notes(self, bundle: ServedBundle, notes: Iterable[str]) -> None:
        """Log sentences about the rows of a request: each once for a bundle whatever its numbers are, and not without end,
        because clients choose names of columns."""
        for note in notes:
            key = bundle.name, re.sub(r"\d[\d,.]*", "", note)
            if key not in self._logged_notes and len(self._logged_notes) < _MOST_LOGGED_NOTES:
                self._logged_notes.add(key)
                self._log(f"{bundle.name}: {note}.")

    def log_bug(self, error: Exception) -> None:
        """Log an unexpected error."""
        self._log(f"A request failed with a bug in tabapp, {type(error).__name__}: {error}.")


class _Gate:
    """Checks access before a request reaches the routes, counts it, and turns every failure into a sentence."""

    def __init__(self, app: ASGIApp, access: Access, application: Application) -> None:
        self._app = app
        self._access = access
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        start, status = time.perf_counter(), 499

        async def count_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            try:
                self._access.check(scope)
                await self._app(scope, receive, count_status)
            except RequestError as error:
                await error_response(error)(scope, receive, count_status)
            except Exception as error:
                self._application.log_bug(error)
        finally:
            self._application.count(scope, status, time.perf_counter() - start)


class _ClosingResponse(Response):
    """An answer before the request is complete: the client gets time to read it, then the connection closes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        # A client that is still sending reads the answer only afterwards.
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while True:
                    message: MutableMapping[str, Any] = await receive()
                    if message["type"] == "http.disconnect" or not message.get("more_body", False):
                        break
        await send({"type": "http.response.body", "body": b""})


def error_response(error: RequestError) -> Response:
    """The answer to a request that is refused."""
    content = encode_json({"error": sentence(error.message)})
    headers = {**_PLAIN_HEADERS, **error.headers}
    if error.closes:
        return _ClosingResponse(content, error.status, {**headers, "Connection": "close"}, JSON)
    return Response(content, error.status, headers, JSON)


def _json(answer: Any, status: int = 200) -> Response:
    return Response(encode_json(answer), status, _PLAIN_HEADERS, JSON)


def _route_of(path: str) -> str:
    """The route of a path without the parts that clients choose."""
    parts = path.strip("/").split("/")
    if len(parts) == 3 and parts[0] == "bundles":
        parts = parts[2:]
    known = ("", "health", "metrics", "openapi.json", "bundles", "schema", "predict", "explain")
    return f"/{parts[0]}" if len(parts) == 1 and parts[0] in known else "other"
