"""The real server on a real port, with a real client; a fake scheduler publishes on a real socket."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, CookieJar, WSMsgType, web
from aiohttp.test_utils import TestClient, TestServer

from scaler.monitor.subscriber import Subscriber
from scaler.monitor.ui import browsers, server
from scaler.monitor.ui.feed import ALWAYS, Feed
from scaler.monitor.ui.request_filter import HEADERS, RequestFilter
from scaler.monitor.ui.server import STATIC, make_app
from scaler.wire.messages.monitor import StateTask
from tests.support import monitored
from tests.support.monitored import Publisher

TOKEN = "t" * 32
Client = TestClient[web.Request, web.Application]
Story = Callable[[Client], Awaitable[None]]
Play = Callable[[Story], None]


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/monitor"


@pytest.fixture
def publisher(address: str) -> Iterator[Publisher]:
    publisher = Publisher(address)
    yield publisher
    publisher.close()


@pytest.fixture
def play(address: str) -> Play:
    """Run a story with a client that does not have the token."""

    def run(story: Story) -> None:
        async def main() -> None:
            app = make_app(Feed(Subscriber(address)), RequestFilter(TOKEN, "127.0.0.1"))
            async with TestClient(TestServer(app), cookie_jar=CookieJar(unsafe=True)) as client:
                await story(client)

        asyncio.run(main())

    return run


async def enter(client: Client) -> None:
    answer = await client.get(f"/?token={TOKEN}")
    assert answer.status == 200


@contextlib.asynccontextmanager
async def connected(client: Client) -> AsyncIterator[Any]:
    """Yield a connection that has sent the token."""
    async with client.ws_connect("/socket") as socket:
        await socket.send_str(TOKEN)
        yield socket


async def frame(socket: Any, **said: Any) -> dict[str, Any]:
    if said:
        await socket.send_json(said)
    found: dict[str, Any] = json.loads((await socket.receive(timeout=10)).data)
    return found


PATHS = ["/", "/static/app.js", "/socket", "/static/", "/static/../gate.py", "/nothing"]


@pytest.mark.parametrize("path", PATHS)
def test_requests_without_the_token_are_refused(play: Play, path: str) -> None:
    async def story(client: Client) -> None:
        answer = await client.get(path)
        assert answer.status == 403
        assert "scaler_ui printed" in await answer.text()
        assert (await client.get(path, params={"token": "wrong" * 8})).status == 403
        assert (await client.get(path, headers={"Authorization": "Bearer wrong"})).status == 403

    play(story)


def test_the_token_opens_the_page_in_any_browser_with_a_strict_cookie(play: Play) -> None:
    async def story(client: Client) -> None:
        for _ in range(3):
            async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser:
                async with browser.get(client.make_url(f"/?token={TOKEN}")) as answer:
                    await answer.read()
                (cookie,) = answer.cookies.values()
                assert cookie["httponly"]
                assert cookie["samesite"] == "Strict"
                assert cookie["path"] == "/"
                assert str(client.port) in cookie.key, "browsers send cookies to all ports of a host"
                async with browser.get(client.make_url("/")) as again:
                    assert (again.status, "<!doctype html>" in await again.text()) == (200, True)
        assert (await client.get("/")).status == 403

    play(story)


@pytest.mark.parametrize("first", ["", "wrong", "COOKIE", '{"wish": 1, "page": "live", "args": {}}', b"bytes", None])
def test_the_cookie_alone_opens_no_data(play: Play, monkeypatch: pytest.MonkeyPatch, first: str | bytes | None) -> None:
    monkeypatch.setattr(server, "TOKEN_SECONDS", 0.2 if first is None else 60.0)

    async def story(client: Client) -> None:
        await enter(client)
        (cookie,) = client.session.cookie_jar
        assert TOKEN not in cookie.value
        assert (await client.get("/metrics")).status == 403
        assert (await client.get("/", headers={"Authorization": f"Bearer {cookie.value}"})).status == 200  # the cookie
        client.session.cookie_jar.clear()
        assert (await client.get("/", headers={"Authorization": f"Bearer {cookie.value}"})).status == 403
        assert (await client.get("/", params={"token": cookie.value})).status == 403
        async with client.ws_connect("/socket", headers={"Cookie": f"{cookie.key}={cookie.value}"}) as socket:
            if isinstance(first, str):
                await socket.send_str(cookie.value if first == "COOKIE" else first)
            elif first is not None:
                await socket.send_bytes(TOKEN.encode())
            await socket.send_str('{"wish": 1, "page": "live", "args": {}}')
            ends = await socket.receive(timeout=20)
            assert (ends.type, ends.data) == (WSMsgType.CLOSE, 1008)

    play(story)


def test_a_program_sends_the_token_as_bearer(play: Play) -> None:
    async def story(client: Client) -> None:
        answer = await client.get("/", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status == 200
        assert not answer.cookies

    play(story)


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}],
)
def test_pages_of_other_origins_cannot_use_the_cookie_of_the_browser(play: Play, headers: dict[str, str]) -> None:
    async def story(client: Client) -> None:
        await enter(client)
        for path in ("/", "/socket"):
            assert (await client.get(path, headers=headers)).status == 403

    play(story)


def test_a_browser_without_the_token_is_asked_for_it_by_a_page_without_scripts(play: Play) -> None:
    async def story(client: Client) -> None:
        asked = await client.get("/", headers={"Accept": "text/html,*/*"})
        text, policy = await asked.text(), asked.headers["Content-Security-Policy"]
        assert (asked.status, asked.content_type) == (403, "text/html")
        assert '<form method="post" action="./"' in text
        assert "<script" not in text
        assert "script-src" not in policy
        assert "form-action 'self'" in policy
        assert "unsafe" not in policy
        style = text.partition("<style>")[2].partition("</style>")[0]
        assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy
        assert "form-action 'none'" in (await client.get("/healthz")).headers["Content-Security-Policy"]

    play(story)


def test_the_form_gives_the_cookie_and_the_token_to_the_browser_that_typed_it(play: Play) -> None:
    async def story(client: Client) -> None:
        for token, headers in (("wrong" * 8, {}), ("", {}), (TOKEN, {"Origin": "http://evil.example"})):
            refused = await client.post("/", data={"token": token}, headers=headers, allow_redirects=False)
            assert (refused.status, len(refused.cookies)) == (403, 0)
            assert TOKEN not in await refused.text()
        assert (await client.post("/", data={"token": "x" * 5000})).status == 413
        entered = await client.post("/", data={"token": f" {TOKEN}\n"}, allow_redirects=False)
        assert (entered.status, entered.headers["Location"]) == (303, f"./#token={TOKEN}")
        (cookie,) = entered.cookies.values()
        assert cookie["httponly"]
        assert TOKEN not in cookie.value
        assert (await client.get("/")).status == 200

    play(story)


def test_the_files_of_the_page_are_compressed_and_cached(play: Play) -> None:
    async def story(client: Client) -> None:
        await enter(client)
        sizes = []
        for accepted in ("identity", "gzip"):
            answer = await client.get("/static/charts.js", headers={"Accept-Encoding": accepted}, auto_decompress=False)
            sizes.append(len(await answer.read()))
        assert sizes[1] * 2 < sizes[0]
        again = await client.get("/static/charts.js", headers={"If-None-Match": answer.headers["ETag"]})
        assert (again.status, await again.read()) == (304, b"")

    play(story)


def test_each_answer_has_the_security_headers(play: Play) -> None:
    async def story(client: Client) -> None:
        refused = await client.get("/")
        await enter(client)
        found = [
            await client.get(path) for path in ("/", "/static/app.js", "/static/style.css", "/nothing", "/healthz")
        ]
        for answer in (refused, *found):
            for name, value in HEADERS.items():
                assert answer.headers[name] == value, answer.url

    play(story)
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_methods_that_change_something_are_refused(play: Play, method: str) -> None:
    async def story(client: Client) -> None:
        await enter(client)
        for path in ("/socket", "/static/app.js", "/healthz", *([] if method == "POST" else ["/"])):
            assert (await client.request(method, path)).status in (404, 405)

    play(story)


def test_the_health_check_needs_no_token(play: Play) -> None:
    async def story(client: Client) -> None:
        answer = await client.get("/healthz", headers={"Host": "loadbalancer"})
        assert (answer.status, await answer.text()) == (200, "ok\n")

    play(story)


def test_files_outside_the_static_folder_are_not_sent(play: Play) -> None:
    async def story(client: Client) -> None:
        await enter(client)
        for path in ("/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static/"):
            assert (await client.get(path)).status in (403, 404)

    play(story)


def test_the_page_loads_nothing_from_other_servers_and_stays_small() -> None:
    files = [path for path in STATIC.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 200_000
    for path in files:
        if path.parent.name == "vendor":
            continue  # not ours; the policy of the page stops what it should not do
        text = path.read_text()
        for bad in ("https://", "innerHTML", "insertAdjacentHTML", "outerHTML =", "document.write", "eval(", "style="):
            assert bad not in text, f"{bad} in {path.name}"
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), path.name
        assert '="/' not in text, f"an address that a proxy prefix would break in {path.name}"


def test_a_page_receives_the_frames_that_it_requests(play: Play, publisher: Publisher) -> None:
    async def story(client: Client) -> None:
        await enter(client)
        async with connected(client) as socket:
            first = await frame(socket, wish=1, page="live", args={})
            assert (first["wish"], first["frame"], first["strip"]["news"]) == (1, 1, "never")
            await asyncio.to_thread(publisher.await_topic, "scheduler")
            publisher.say("workers", monitored.agent(monitored.row(), host="<script>alert(1)</script>"))
            publisher.say("scheduler", monitored.scheduler(waiting=7), *monitored.counts(ended={"success": 3}))
            shown = await frame(socket, ack=1)
            while shown["strip"]["open"] is None:
                shown = await frame(socket, ack=shown["frame"])
            assert shown["strip"]["open"] == 7
            assert shown["data"]["workers"]["rows"][0]["host"] == "<script>alert(1)</script>"

    play(story)


def test_a_slow_page_skips_frames_and_has_no_queue(play: Play, publisher: Publisher) -> None:
    async def story(client: Client) -> None:
        await enter(client)
        async with connected(client) as socket:
            first = await frame(socket, wish=1, page="live", args={})
            await asyncio.to_thread(publisher.await_topic, "scheduler")
            for waiting in range(30):
                publisher.say("scheduler", monitored.scheduler(waiting=waiting))
                await asyncio.sleep(0.02)
            with pytest.raises(asyncio.TimeoutError):
                await socket.receive(timeout=0.3)
            shown = await frame(socket, ack=first["frame"])
            assert (shown["frame"], shown["strip"]["open"]) == (2, 29), "the newest state, and none of those before"

    play(story)


def test_a_hidden_page_receives_no_frames(play: Play) -> None:
    async def story(client: Client) -> None:
        await enter(client)
        async with connected(client) as socket:
            await socket.send_json({"hidden": True})
            await socket.send_json({"wish": 1, "page": "live"})
            with pytest.raises(asyncio.TimeoutError):
                await socket.receive(timeout=0.3)
            assert (await frame(socket, hidden=False))["wish"] == 1

    play(story)


def test_rare_topics_are_subscribed_to_only_while_a_page_shows_them(address: str) -> None:
    async def main() -> None:
        feed = Feed(Subscriber(address))
        app = make_app(feed, RequestFilter(TOKEN, "127.0.0.1"))
        async with TestClient(TestServer(app), cookie_jar=CookieJar(unsafe=True)) as client:
            await enter(client)
            async with connected(client) as socket:
                await frame(socket, wish=1, page="processors")
                assert feed.topics == ALWAYS | {"processors"}
                await frame(socket, wish=2, page="task", args={"id": "ab" * 8})
                assert feed.topics == ALWAYS | {f"task/{'ab' * 8}"}
            while feed.topics != ALWAYS:  # noqa: ASYNC110 - the server notices the end of a connection by itself
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 20))


def test_an_open_task_stays_known_on_its_page_and_goes_before_all_are_listed_again(
    address: str, publisher: Publisher
) -> None:
    async def main() -> None:
        feed = Feed(Subscriber(address))
        app = make_app(feed, RequestFilter(TOKEN, "127.0.0.1"))
        task = {"id": b"task0001".hex()}
        async with TestClient(TestServer(app), cookie_jar=CookieJar(unsafe=True)) as client:
            await enter(client)
            async with connected(client) as socket:
                shown = await frame(socket, wish=1, page="tasks")
                await asyncio.to_thread(publisher.await_topic, "tasks")
                publisher.say("tasks", StateTask(b"task0001", state="running", submitted_us=1))
                while not shown["data"]["rows"]:
                    shown = await frame(socket, ack=shown["frame"])
                shown = await frame(socket, wish=2, page="task", args=task)
                assert shown["data"]["task"]["id"] == task["id"], "the page of the task does not begin empty"
                assert (await frame(socket, wish=3, page="tasks"))["data"]["rows"] == [], "its end may be missed"

    asyncio.run(asyncio.wait_for(main(), 20))


@pytest.mark.parametrize(
    "said",
    [
        "no json",
        "[]",
        '{"wish": "one", "page": "live"}',
        '{"wish": 1, "page": "live", "args": {"sort": "secret"}}',
        '{"wish": 1, "page": "live", "args": {"offset": "ten"}}',
        '{"wish": 1, "page": "tasks", "args": {"filter": "' + "x" * 400 + '"}}',
        '{"ack": "all"}',
        '{"ack": Infinity}',
        "[" * 4_000,
        '{"wish": 1, "page": "live", "args": ' + "[" * 3_000 + "]" * 3_000 + "}",
        "x" * 20_000,
    ],
)
def test_a_malformed_request_of_a_page_ends_only_its_connection(play: Play, said: str) -> None:
    async def story(client: Client) -> None:
        await enter(client)
        async with connected(client) as socket:
            await socket.send_str(said)
            ends = await socket.receive(timeout=10)
            assert ends.type in (WSMsgType.CLOSE, WSMsgType.CLOSED)
        async with connected(client) as socket:
            assert (await frame(socket, wish=1, page="live"))["wish"] == 1

    play(story)


@pytest.mark.parametrize(
    ("page", "identity", "says"), [("nothing", "", "no such page"), ("task", "no hex", "not an id")]
)
def test_a_page_that_does_not_exist_is_told_so(play: Play, page: str, identity: str, says: str) -> None:
    async def story(client: Client) -> None:
        await enter(client)
        async with connected(client) as socket:
            shown = await frame(socket, wish=1, page=page, args={"id": identity})
            assert shown["data"] is None
            assert says in shown["missing"]
            assert (await frame(socket, wish=2, page="live"))["wish"] == 2

    play(story)


def test_a_page_whose_frame_fails_is_closed(
    play: Play, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_arguments: object) -> None:
        raise LookupError("what nobody has thought of")

    monkeypatch.setattr("scaler.monitor.ui.views.frame", fail)

    async def story(client: Client) -> None:
        await enter(client)
        async with connected(client) as socket:
            await socket.send_json({"wish": 1, "page": "live", "args": {}})
            assert (await socket.receive(timeout=10)).data == 1011

    play(story)
    assert "nobody has thought of" in caplog.text


def test_a_program_with_the_token_as_bearer_need_not_send_it_again(play: Play) -> None:
    async def story(client: Client) -> None:
        async with client.ws_connect("/socket", headers={"Authorization": f"Bearer {TOKEN}"}) as socket:
            assert (await frame(socket, wish=1, page="live"))["wish"] == 1

    play(story)


def test_the_number_of_open_pages_is_limited(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BROWSERS_MOST", 2)

    async def story(client: Client) -> None:
        await enter(client)
        async with connected(client) as first, connected(client) as second:
            for socket in (first, second):
                assert (await frame(socket, wish=1, page="live"))["wish"] == 1
            assert (await client.get("/socket")).status == 503

    play(story)


def test_frames_are_sent_at_most_four_times_a_second() -> None:
    assert browsers.FRAME_SECONDS >= 0.25
