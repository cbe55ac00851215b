"""The metrics of the server: they need the token, and are served even without a page."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from scaler.monitor.metrics import CONTENT_TYPE
from scaler.monitor.subscriber import Subscriber
from scaler.monitor.ui.feed import Feed
from scaler.monitor.ui.request_filter import RequestFilter
from scaler.monitor.ui.server import make_app
from tests.support import monitored
from tests.support.monitored import Publisher

TOKEN = "t" * 32


@pytest.mark.parametrize("has_page", [True, False])
def test_metrics_need_the_token_and_health_does_not(tmp_path: Path, has_page: bool) -> None:
    address = f"ipc://{tmp_path}/monitor"
    publisher = Publisher(address)

    async def main() -> None:
        app = make_app(Feed(Subscriber(address)), RequestFilter(TOKEN, "127.0.0.1"), has_page)
        async with TestClient(TestServer(app)) as client:
            assert (await client.get("/metrics")).status == 403
            assert (await client.get("/metrics", headers={"Authorization": "Bearer wrong"})).status == 403
            assert (await client.get("/healthz")).status == 200
            bearer = {"Authorization": f"Bearer {TOKEN}"}
            answer = await client.get("/metrics", headers=bearer)
            assert answer.headers["Content-Type"] == CONTENT_TYPE
            assert "scaler_up 0.0\n" in await answer.text()
            await asyncio.to_thread(publisher.await_topic, "scheduler")
            publisher.say("scheduler", monitored.scheduler(waiting=5))
            for _ in range(100):
                text = await (await client.get("/metrics", headers=bearer)).text()
                if "scaler_up 1.0\n" in text:
                    break
                await asyncio.sleep(0.05)
            assert "scaler_tasks_waiting 5.0\n" in text
            assert (await client.get("/", headers=bearer)).status == (200 if has_page else 404)

    try:
        asyncio.run(main())
    finally:
        publisher.close()
