"""The local page as a program meets it: who is served, what is streamed, and what is stopped."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import runpy
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import sharpdp as dp
from sharpdp.errors import InvalidArgument
from sharpdp.explore import ExploreServer, start, workers
from sharpdp.explore.server import FILES
from sharpdp.explore.shared_answers import Answers
from sharpdp.explore.workers import Pool

CURVE = {"runs": ["gaussian noise_multiplier=1"], "kind": "profile", "delta": 1e-5}
LONG = {"users": 10**6, "rounds": 1000, "categories": 6, "delta": 1e-8, "local_epsilon": 4.0}


@pytest.fixture(scope="module")
def server() -> Iterator[ExploreServer]:
    with start(port=0) as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.shutdown()


def requested(
    server: ExploreServer,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response, response.read()


def asked(server: ExploreServer, name: str, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """All messages of an answer."""
    headers = {"Content-Type": "application/json"}
    response, body = requested(server, "POST", f"/ask/{name}", json.dumps(fields).encode(), headers)
    assert response.status == 200
    return [json.loads(line) for line in body.splitlines()]


def test_files_are_served_with_a_policy_that_loads_nothing_from_elsewhere(
    server: ExploreServer,
) -> None:
    for path in FILES:
        response, body = requested(server, "GET", path)
        assert (response.status, bool(body)) == (200, True)
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        assert "http" not in policy
        text = body.decode().replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text
    assert requested(server, "GET", "/../server.py")[0].status == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:8765"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/json", "Content-Length": "99999999999"}, 413),
        ({"Content-Type": "application/json"}, 400),
    ],
)
def test_requests_from_elsewhere_and_misshapen_ones_are_refused(
    server: ExploreServer, headers: dict[str, str], status: int
) -> None:
    response, body = requested(server, "POST", "/ask/curves", b"[1]", headers)
    assert response.status == status
    assert json.loads(body)["error"].endswith(".")


def test_an_answer_is_that_of_the_api(server: ExploreServer) -> None:
    messages = asked(server, "curves", CURVE)
    assert "done" in messages[-1]
    (curve,) = (m["part"]["curve"] for m in messages if "curve" in m.get("part", {}))
    answer = dp.account(dp.Gaussian(noise_multiplier=1.0))
    epsilon = answer.epsilon(delta=1e-5)
    assert curve["epsilon"]["upper"] == pytest.approx(float(epsilon), rel=1e-9)
    deltas = answer.delta(epsilon=curve["x"])
    assert curve["upper"] == pytest.approx(list(deltas.upper), rel=1e-6)
    again = [m for m in asked(server, "curves", CURVE) if "progress" not in m]
    assert again == [m for m in messages if "progress" not in m]


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("curves", {**CURVE, "runs": ["gausian noise_multiplier=1"]}, "Did you mean gaussian"),
        ("curves", {**CURVE, "runs": ["/etc/passwd.toml"]}, "paste a plan as JSON"),
        ("curves", {**CURVE, "runs": []}, "runs must be 1 to 6 lines; got 0"),
        ("curves", {**CURVE, "delta": "x"}, "delta must be a number"),
        ("curves-bounds", {"run": "gaussian", "delta": 1e-5}, "noise_multiplier"),
        ("collection-design", {**LONG, "drop_outs": 1.0}, "drop_outs must be in [0, 1)"),
        ("training-schemes", {}, "dataset_size must be a number"),
        ("officer-reports", {"reports": [], "delta": 1e-5}, "reports must be a list"),
        ("document", {}, "plan must be given"),
    ],
)
def test_bad_fields_get_a_sentence(
    server: ExploreServer, name: str, fields: dict[str, Any], words: str
) -> None:
    message = asked(server, name, fields)[-1]
    assert words in message["error"]


def left_alone(server: ExploreServer, name: str, fields: dict[str, Any]) -> None:
    """Ask, and go away when the work has begun."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", f"/ask/{name}", json.dumps(fields).encode(), headers)
    response = connection.getresponse()
    assert "error" not in json.loads(response.readline())
    response.close()
    connection.close()


def test_long_work_that_nobody_waits_for_is_ended(
    server: ExploreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "GRACE", 0.05)  # however fast the machine is
    before = set(server.pool.processes)
    left_alone(server, "collection-design", {**LONG, "users": 10**6, "local_epsilon": 9.0})
    deadline = time.monotonic() + 60
    while set(server.pool.processes) == before and time.monotonic() < deadline:
        time.sleep(0.05)
    (stopped,) = before - set(server.pool.processes)
    assert len(server.pool.processes) == len(before)
    if sys.platform != "win32":  # where a signal of 0 would be Ctrl-C
        with pytest.raises(ProcessLookupError):
            os.kill(stopped, 0)


def test_a_process_that_can_stop_by_itself_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "GRACE", 60.0)  # however busy the machine is
    monkeypatch.setattr(workers, "MOST_MEGABYTES", 1e6)  # a fork of the test run is large
    pool = Pool(1)
    try:
        (process,) = pool.processes
        fields = {**CURVE, "runs": [f"gaussian noise_multiplier={noise}" for noise in range(1, 7)]}
        answer = pool.answers({"name": "curves", "fields": fields}, lambda: True)
        assert "curve" in next(message["part"] for message in answer if "part" in message)
        answer.close()  # type: ignore[attr-defined]
        question = {"name": "curves", "fields": CURVE}
        assert list(pool.answers(question, lambda: True))[-1]["done"] is True
        assert pool.processes == (process,)
    finally:
        pool.close()


def test_questions_are_answered_in_the_order_in_which_they_came() -> None:
    pool = Pool(1)
    finished: list[int] = []

    def ask(number: int) -> None:
        fields = {**CURVE, "delta": 10.0 ** -(number + 3)}
        list(pool.answers({"name": "curves", "fields": fields}, lambda: True))
        finished.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    try:
        for thread in threads:
            thread.start()
            time.sleep(0.02)  # all come while the process still starts
        for thread in threads:
            thread.join()
    finally:
        pool.close()
    assert finished == sorted(finished)


def test_a_process_that_dies_is_replaced_and_the_reader_is_told() -> None:
    pool = Pool(1)
    try:
        (process,) = pool.processes
        answer = pool.answers({"name": "collection-design", "fields": LONG}, lambda: True)
        next(answer)
        os.kill(process, 9)
        assert "ended without an answer" in list(answer)[-1]["error"]
        question = {"name": "curves", "fields": CURVE}
        assert "done" in list(pool.answers(question, lambda: True))[-1]
    finally:
        pool.close()


def test_b13_processes_that_ended_while_they_were_idle_are_replaced_first() -> None:
    pool = Pool(2)
    try:
        killed = set(pool.processes)
        for process in killed:
            os.kill(process, 9)
        deadline = time.monotonic() + 30
        while not all(worker.has_ended for worker in pool._all) and time.monotonic() < deadline:
            time.sleep(0.01)
        question = {"name": "curves", "fields": CURVE}
        for _ in killed:
            assert "done" in list(pool.answers(question, lambda: True))[-1]
        assert len(pool.processes) == 2
    finally:
        pool.close()


@pytest.mark.parametrize("depth", [201, 100_000])
def test_b13_a_question_that_is_nested_too_deeply_gets_a_sentence(
    server: ExploreServer, depth: int
) -> None:
    body = b'{"runs": ' + b"[" * depth + b"]" * depth + b"}"
    headers = {"Content-Type": "application/json"}
    response, said = requested(server, "POST", "/ask/curves", body, headers)
    assert response.status == 400
    assert "nested too deeply" in json.loads(said)["error"]


@pytest.mark.parametrize("body", [b"", b"x", b"7", b"{", b"\xff\xfe", b'{"a": 1, "a": 2}'])
def test_questions_that_are_no_objects_get_a_sentence(server: ExploreServer, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    response, said = requested(server, "POST", "/ask/curves", body, headers)
    assert response.status == 400
    assert json.loads(said)["error"].startswith("a question must ") or b"comes twice" in said


@pytest.mark.parametrize("method", ["PUT", "OPTIONS", "HEAD", "TRACE", "<b>"])
def test_b13_every_refusal_has_the_policy_of_the_page(server: ExploreServer, method: str) -> None:
    response, body = requested(server, method, "/")
    assert response.status == 501
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert body == b"" if method == "HEAD" else "error" in json.loads(body)


def test_b13_what_all_questions_hold_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharpdp.explore.server.MOST_BYTES", 200)
    headers = {"Content-Type": "application/json"}
    with served() as small:
        waiting = socket.create_connection(("127.0.0.1", small.server_port))
        with contextlib.closing(waiting):
            waiting.sendall(
                f"POST /ask/curves HTTP/1.1\r\nHost: 127.0.0.1:{small.server_port}\r\n"
                "Content-Type: application/json\r\nContent-Length: 150\r\n\r\n{".encode()
            )
            deadline = time.monotonic() + 30
            while (status := refused(small, headers)) != 503 and time.monotonic() < deadline:
                time.sleep(0.05)
            assert status == 503
        while (status := refused(small, headers)) != 400 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert status == 400  # there is room again


def refused(server: ExploreServer, headers: dict[str, str]) -> int:
    return requested(server, "POST", "/ask/curves", b"x" * 100, headers)[0].status


def test_b13_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharpdp.explore.server.MOST_CONNECTIONS", 3)
    with served() as small:
        held = [socket.create_connection(("127.0.0.1", small.server_port)) for _ in range(3)]
        deadline = time.monotonic() + 30
        while is_served(small) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not is_served(small)
        for connection in held:
            connection.close()
        while not is_served(small) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert is_served(small)


def is_served(server: ExploreServer) -> bool:
    with contextlib.suppress(OSError, http.client.HTTPException):
        return requested(server, "GET", "/")[0].status == 200
    return False


@contextlib.contextmanager
def served() -> Iterator[ExploreServer]:
    """A server with limits of its own, of one process."""
    with ExploreServer(0, Pool(1)) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def test_answers_are_kept_up_to_a_size() -> None:
    pool = Counting()
    size = len(json.dumps({"name": "a"})) + len("".join(Answers(pool).lines({"name": "a"}, waits)))
    pool.asked.clear()
    kept = Answers(pool, most=2 * size)
    for name in ("a", "b", "a", "c", "a", "b"):
        assert json.loads(list(kept.lines({"name": name}, waits))[-1])["done"]
    assert pool.asked == ["a", "b", "c", "b"]  # b was forgotten for c, since a was used after it
    assert len(list(Answers(pool, most=size - 1).lines({"name": "a"}, waits))) == 2


def waits() -> bool:
    return True


class Counting(Pool):
    """Answers at once, and knows what was asked; one that is slow goes on when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go_on = threading.Event()
        self.stopped = threading.Event()

    def answers(self, question: Any, is_waiting: Any) -> Iterator[dict[str, Any]]:
        self.asked.append(question["name"])
        yield {"part": {"name": question["name"]}}
        while question["name"] == "slow" and not self.go_on.wait(0.01):
            if not is_waiting():
                self.stopped.set()
                raise workers.Gone
            yield {"progress": "computing"}
        yield {"done": True}


def test_who_asks_the_same_at_once_shares_one_computation() -> None:
    pool = Counting()
    kept = Answers(pool)
    there = {"first": True, "second": True}
    seen: dict[str, list[str]] = {"first": [], "second": []}

    def read(name: str) -> None:
        with contextlib.suppress(workers.Gone):
            for line in kept.lines({"name": "slow"}, lambda: there[name]):
                seen[name].append(line)

    threads = [threading.Thread(target=read, args=(name,)) for name in seen]
    for thread in threads:
        thread.start()
    while not all(seen.values()):
        time.sleep(0.01)
    there["first"] = False  # the one who asked first leaves, and the work goes on for the other
    threads[0].join()
    assert not pool.stopped.is_set()
    pool.go_on.set()
    threads[1].join()
    assert pool.asked == ["slow"]
    assert json.loads(seen["second"][-1]) == {"done": True}
    assert "done" not in seen["first"][-1]


def test_work_stops_when_the_last_one_leaves_and_starts_anew_for_the_next() -> None:
    pool = Counting()
    kept = Answers(pool)
    there = [True]
    reader = kept.lines({"name": "slow"}, lambda: there[0])
    assert "part" in json.loads(next(reader))
    there[0] = False
    assert pool.stopped.wait(60)
    with pytest.raises(workers.Gone):
        list(reader)
    pool.go_on.set()
    assert json.loads(list(kept.lines({"name": "slow"}, waits))[-1]) == {"done": True}
    assert pool.asked == ["slow", "slow"]


@pytest.mark.parametrize("port", [-1, 65536, 1.5, True])
def test_ports_that_are_none_are_refused(port: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"port must be a whole number from 0 to 65535; got"):
        start(port=port)


def test_a_port_that_is_taken_is_refused(server: ExploreServer) -> None:
    with pytest.raises(InvalidArgument, match="port must be free"):
        start(port=server.server_port)


def test_short_questions_pass_long_ones() -> None:
    pool = Pool(1)
    pool._seconds.update({"curves": 0.01, "curves-bounds": 30.0})
    finished: list[str] = []

    def ask(name: str, fields: dict[str, Any]) -> None:
        list(pool.answers({"name": name, "fields": fields}, lambda: True))
        finished.append(name)

    long = {"run": "gaussian noise_multiplier=1", "delta": 1e-5}
    order = [("curves", CURVE), ("curves-bounds", long), ("curves", {**CURVE, "delta": 1e-6})]
    threads = [threading.Thread(target=ask, args=asked) for asked in order]
    try:
        for thread in threads:
            thread.start()
            time.sleep(0.02)  # all come while the process still starts
        for thread in threads:
            thread.join()
    finally:
        pool.close()
    assert finished == ["curves", "curves", "curves-bounds"]


def test_long_questions_leave_a_process_to_the_short_ones() -> None:
    pool = Pool(2)
    pool._seconds.update({"curves": 0.01, "collection-picture": 30.0})
    long = {"name": "collection-picture", "fields": {**LONG, "drop_outs": 0.0}}
    answer, other = (pool.answers(long, waits) for _ in range(2))
    try:
        while "waiting" in str(next(answer)):
            pass  # it is at work, and stays there
        assert "waiting" in str(next(other))
        question = {"name": "curves", "fields": CURVE}
        assert "done" in list(pool.answers(question, waits))[-1]
        assert "waiting" in str(next(other))
    finally:
        answer.close()  # type: ignore[attr-defined]
        other.close()  # type: ignore[attr-defined]
        pool.close()


def test_some_people_at_once_get_answers_and_no_error() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "explore_load.py"
    seen = runpy.run_path(str(script))["load"](people=6, seconds=1.0)
    assert seen["errors"] == 0
    assert seen["answered"] + seen["moved on"] >= 6
    assert 0 < seen["megabytes of all processes, at most"] < 3 * 700 or sys.platform != "linux"


def test_a_machine_without_a_browser_is_told_what_is_skipped_and_how_to_get_it() -> None:
    page = str(Path(__file__).with_name("test_page.py"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", page]
    done = subprocess.run(
        command, env={**os.environ, "PATH": ""}, capture_output=True, text=True, check=True
    )
    assert "apt-get install chromium" in done.stdout
    assert "test_page.py" in done.stdout
    assert " skipped" in done.stdout
