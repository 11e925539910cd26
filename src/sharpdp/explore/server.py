"""Serves the page on this machine: static files, and answers that are streamed line by line.

Only requests that name this machine as their host are served, so that no page from elsewhere can reach it
by a name of its own, and questions must be JSON, which no foreign form can send.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import webbrowser
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from sharpdp._validate import invalid
from sharpdp.errors import InvalidArgument
from sharpdp.explore.questions import QUESTIONS
from sharpdp.explore.shared_answers import Answers
from sharpdp.explore.workers import Gone, Pool
from sharpdp.storage.json_text import parsed

__all__ = ["ExploreServer", "start"]

SCRIPTS = (
    "page", "answer", "asking", "pictures", "pieces", "training", "collection", "curves", "officer",
)  # fmt: skip

FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/mark.svg": ("mark.svg", "image/svg+xml"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript; charset=utf-8") for name in SCRIPTS},
}
"""Everything that is served, and its type."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Nothing is loaded from elsewhere, embedded elsewhere, or kept."""

LONGEST_QUESTION = 16_000_000
"""Bytes; an officer may hand in some reports at once."""


MOST_BYTES = 4 * LONGEST_QUESTION
"""Bytes of all questions that are being read or answered."""

MOST_CONNECTIONS = 200
"""Each has a thread; a browser opens about six."""


class Allowance:
    """So much of something may be taken at a time."""

    def __init__(self, most: int) -> None:
        """All of it is free."""
        self._free, self._lock = most, threading.Lock()

    def takes(self, amount: int) -> bool:
        """Take so much if that is free, and say whether it was."""
        with self._lock:
            if amount > self._free:
                return False
            self._free -= amount
            return True

    def gives(self, amount: int) -> None:
        """Give back so much of what was taken."""
        with self._lock:
            self._free += amount


class ExploreServer(ThreadingHTTPServer):
    """The page and its answers, on 127.0.0.1 only; `start` makes one.

    Args:
        port: The port to listen on; 0 for any that is free.
        pool: The processes that compute.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, pool: Pool) -> None:
        """On this port; 0 for any that is free."""
        self.pool, self.answers = pool, Answers(pool)  # closed if the port is taken
        self.held, self._connections = Allowance(MOST_BYTES), Allowance(MOST_CONNECTIONS)
        super().__init__(("127.0.0.1", port), Handler)
        names = ("127.0.0.1", "localhost")
        self.hosts = {f"{name}:{self.server_port}" for name in names}

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_port}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own, or close it if there are too many.

        Args:
            request: The connection.
            client_address: Where it came from.
        """
        if not self._connections.takes(1):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # there is no thread that would give its place back
            self._connections.gives(1)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a connection in this thread.

        Args:
            request: The connection.
            client_address: Where it came from.
        """
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.gives(1)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle is no error.

        Args:
            request: The connection.
            client_address: Where it came from.
        """

    def run(self, *, browser: bool = True) -> None:
        """Serve until interrupted.

        Args:
            browser: Whether to open the page in a browser.
        """
        with self:
            if browser:
                webbrowser.open(self.address)
            self.serve_forever()

    def server_close(self) -> None:
        """Stop serving, and end all processes."""
        super().server_close()
        self.pool.close()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: ExploreServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:  # the name that http.server calls
        """A static file."""
        if not self._is_local():
            return
        name = self.path.partition("?")[0]
        if name not in FILES:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such page")
            return
        file, kind = FILES[name]
        body = files("sharpdp.explore").joinpath("static").joinpath(file).read_bytes()
        self._start(HTTPStatus.OK, kind, len(body))
        self.wfile.write(body)

    def do_POST(self) -> None:  # the name that http.server calls
        """A question; its answer is streamed, one message of JSON a line."""
        if not self._is_local():
            return
        name = self.path.removeprefix("/ask/")
        length = self.headers.get("Content-Length", "")
        size = int(length) if length.isdecimal() and len(length) < 20 else LONGEST_QUESTION + 1
        if name not in QUESTIONS or name == self.path:
            self._refuse(HTTPStatus.NOT_FOUND, "there is no such question")
        elif self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a question must be JSON")
        elif size > LONGEST_QUESTION:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the question is too long")
        elif not self.server.held.takes(size):
            why = "too many long questions are asked at once; ask again in a while"
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, why)
        else:
            try:
                self._ask(name, self.rfile.read(size))
            finally:
                self.server.held.gives(size)

    def _ask(self, name: str, body: bytes) -> None:
        """Pass a question on, if it is one."""
        try:
            fields = parsed(body.decode("utf-8"), "a question")
        except UnicodeDecodeError:
            self._refuse(HTTPStatus.BAD_REQUEST, "a question must be text in UTF-8")
        except InvalidArgument as fault:
            self._refuse(HTTPStatus.BAD_REQUEST, str(fault).removesuffix("."))
        else:
            self._stream({"name": name, "fields": fields})

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refusals of http.server itself, such as other methods, in the words and headers of this page.

        Args:
            code: The status.
            message: Not shown: it repeats the request.
            explain: Not shown either.
        """
        status = HTTPStatus(code)
        self._refuse(status, f"this request cannot be answered: {status.phrase.lower()}")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as http.server has it
        """Requests are not written anywhere."""

    def _is_local(self) -> bool:
        """Whether the request names this machine, and comes from a page of this server or from none."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        own = {f"http://{name}" for name in self.server.hosts}
        if host in self.server.hosts and (origin is None or origin in own):
            return True
        self._refuse(HTTPStatus.FORBIDDEN, "this page is served to this machine only")
        return False

    def _start(self, status: HTTPStatus, kind: str, length: int | None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is None or status >= 400:  # the end of the connection is the end of the answer
            self.send_header("Connection", "close")
            self.close_connection = True
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.end_headers()

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        body = json.dumps({"error": f"{why}."}).encode()
        self._start(status, "application/json", len(body))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, question: dict[str, Any]) -> None:
        self._start(HTTPStatus.OK, "application/x-ndjson", None)
        with contextlib.suppress(Gone, OSError):
            for line in self.server.answers.lines(question, self._is_waiting):
                self.wfile.write(line.encode())
                self.wfile.flush()

    def _is_waiting(self) -> bool:
        """Whether the browser has not closed the connection."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return not readable or bool(self.connection.recv(1, socket.MSG_PEEK))
        except (OSError, ValueError):  # the second if it has been closed here
            return False


def start(*, port: int = 8765) -> ExploreServer:
    """The page on this machine, ready to be served; closing it ends all that it has started.

    Args:
        port: Port on 127.0.0.1, from 0 to 65535; 0 for any that is free.

    Returns:
        The server, a context manager; `run` serves until it is interrupted.

    Raises:
        InvalidArgument: The port is out of range or taken.

    >>> with start(port=0) as server:
    ...     print(server.address.startswith("http://127.0.0.1:"))
    True
    """
    asked: object = port
    if isinstance(asked, bool) or not isinstance(asked, int) or not 0 <= asked <= 65535:
        raise invalid("port", "a whole number from 0 to 65535", asked)
    try:
        return ExploreServer(port, Pool())
    except OSError as fault:
        raise InvalidArgument(
            f"port must be free; got {port}, which is not ({fault.strerror}). Try port 0."
        ) from fault
