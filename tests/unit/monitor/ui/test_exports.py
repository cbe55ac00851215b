"""Exports of views over HTTP, from a server whose scheduler publishes on a real socket."""

from __future__ import annotations

import asyncio
import csv
import io
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from scaler.monitor.subscriber import Subscriber
from scaler.monitor.ui import exports
from scaler.monitor.ui.feed import Feed
from scaler.monitor.ui.request_filter import RequestFilter
from scaler.monitor.ui.server import make_app
from scaler.monitor.views.catalog import OF_DETAILS, VIEWS
from scaler.wire.messages.monitor import StateObject
from tests.support import monitored
from tests.support.monitored import Publisher

TOKEN = "t" * 32
BEARER = {"Authorization": f"Bearer {TOKEN}"}


async def heard(client: TestClient[web.Request, web.Application], feed: Feed, publisher: Publisher) -> None:
    await client.get("/healthz")
    await asyncio.to_thread(publisher.await_topic, "functions")
    functions = [
        monitored.function(name, waiting, 1, function=name.encode().ljust(8))
        for name, waiting in (("price", 5), ("load", 50), ("=cmd()", 1))
    ]
    changed = asyncio.Event()
    feed.listen(changed, changed.set)
    publisher.say("functions", *functions)
    while "functions" not in feed.state.model.heads:
        await changed.wait()
        changed.clear()
    feed.leave(changed)


def test_a_view_is_exported_as_json_and_csv(tmp_path: Path) -> None:
    async def main() -> None:
        publisher = Publisher(f"ipc://{tmp_path}/monitor")
        feed = Feed(Subscriber(f"ipc://{tmp_path}/monitor"))
        app = make_app(feed, RequestFilter(TOKEN, "127.0.0.1"))
        async with TestClient(TestServer(app)) as client:
            await heard(client, feed, publisher)
            for path in ("/view/functions.json", "/view/functions.csv", "/view/nothing.json"):
                assert (await client.get(path)).status == 403, "the token is needed"
            answer = await client.get("/view/functions.json?sort=-open&limit=2", headers=BEARER)
            shown = await answer.json()
            assert [(each["name"], each["open"]) for each in shown["rows"]] == [("load", 51), ("price", 6)]
            assert (shown["total"], shown["offset"], shown["sort"]) == (3, 0, "-open")
            answer = await client.get("/view/functions.csv?sort=name&filter=!load", headers=BEARER)
            first, *rows = csv.reader(io.StringIO(await answer.text()))
            names = [dict(zip(first, row, strict=True))["name"] for row in rows]
            assert (answer.content_type, sorted(names)) == ("text/csv", ["'=cmd()", "price"])
        publisher.close()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_rare_topic_is_subscribed_to_for_the_export_alone(tmp_path: Path) -> None:
    async def main() -> None:
        publisher = Publisher(f"ipc://{tmp_path}/monitor")
        feed = Feed(Subscriber(f"ipc://{tmp_path}/monitor"))
        app = make_app(feed, RequestFilter(TOKEN, "127.0.0.1"))
        async with TestClient(TestServer(app)) as client:
            await heard(client, feed, publisher)
            before = feed.topics
            request = asyncio.create_task(client.get("/view/objects.json", headers=BEARER))
            await asyncio.to_thread(publisher.await_topic, "objects")
            publisher.say("objects", StateObject(b"o", "surface", b"c", 100, 1, 2))
            rows = (await (await request).json())["rows"]
            assert [each["name"] for each in rows] == ["value surface"]
            assert feed.topics == before
        publisher.close()

    asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in OF_DETAILS])
def test_each_view_can_be_exported_before_any_news(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "FIRST_SECONDS", 0.05)

    async def main() -> None:
        app = make_app(Feed(Subscriber(f"ipc://{tmp_path}/monitor")), RequestFilter(TOKEN, "127.0.0.1"))
        async with TestClient(TestServer(app)) as client:
            answer = await client.get(f"/view/{name}.json", headers=BEARER)
            assert (answer.status, (await answer.json())["view"]) == (200, name)
            text = await (await client.get(f"/view/{name}.csv", headers=BEARER)).text()
            assert text.startswith("id,")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("functions.xml", 404),
        ("lines.json", 404),
        ("nothing.csv", 404),
        ("functions.json?sort=height", 400),
        ("functions.json?limit=ten", 400),
        ("functions.csv?shoes=2", 400),
    ],
)
def test_what_cannot_be_exported_is_refused_with_the_reason(tmp_path: Path, path: str, status: int) -> None:
    async def main() -> None:
        app = make_app(Feed(Subscriber(f"ipc://{tmp_path}/monitor")), RequestFilter(TOKEN, "127.0.0.1"))
        async with TestClient(TestServer(app)) as client:
            answer = await client.get(f"/view/{path}", headers=BEARER)
            assert answer.status == status
            assert len(await answer.text()) > 10

    asyncio.run(main())
