"""A web service that computes on workers: aiohttp and `AsyncClient` in one event loop.

    python examples/web_service.py                  starts it, sends some requests, and ends it
    python examples/web_service.py --port 8080      serves until Ctrl-C: curl 'http://127.0.0.1:8080/primes?below=100000'

Each request awaits one task. If the web client disconnects, or the task takes longer than the limit, it is cancelled on
its worker, and the worker is free for the next request.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator

from aiohttp import ClientSession, web

from scaler import AsyncClient

LIMIT_SECONDS = 1.5
CLIENT = web.AppKey("client", AsyncClient)


def count_primes(below: int) -> int:
    """Count primes by trial division: slow on purpose."""
    return sum(all(n % divisor for divisor in range(2, int(n**0.5) + 1)) for n in range(2, below))


async def primes(request: web.Request) -> web.Response:
    try:
        below = int(request.query["below"])
    except (KeyError, ValueError):
        raise web.HTTPBadRequest(text="ask for /primes?below=NUMBER\n") from None
    start = time.perf_counter()
    try:
        count = await asyncio.wait_for(request.app[CLIENT].submit(count_primes, below), LIMIT_SECONDS)
    except asyncio.TimeoutError:
        raise web.HTTPServiceUnavailable(text=f"not within {LIMIT_SECONDS:g} s; ask for less\n") from None
    return web.json_response({"below": below, "primes": count, "seconds": round(time.perf_counter() - start, 3)})


async def with_client(app: web.Application) -> AsyncIterator[None]:
    """Keep a client connected while the service runs."""
    async with AsyncClient() as client:
        await client.submit(abs, 0)  # wait for the first worker
        app[CLIENT] = client
        yield


def make_app() -> web.Application:
    app = web.Application(handler_args={"handler_cancellation": True})  # a disconnect cancels the request
    app.cleanup_ctx.append(with_client)
    app.router.add_get("/primes", primes)
    return app


async def ask(url: str) -> None:
    """Send several requests at once; one of them takes too long."""
    questions = [1_000, 10_000, 30_000, 20_000_000, "many"]
    async with ClientSession() as session:

        async def one(below: object) -> str:
            async with session.get(url, params={"below": str(below)}) as response:
                return f"{below}: {response.status} {(await response.text()).strip()}"

        for answer in asyncio.as_completed([one(below) for below in questions]):
            print(await answer)


async def show() -> None:
    runner = web.AppRunner(make_app())
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        await ask(f"http://{host}:{port}/primes")
    finally:
        await runner.cleanup()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, help="serve at this port of 127.0.0.1 until Ctrl-C")
    options = parser.parse_args()
    if options.port is None:
        asyncio.run(show())
    else:
        web.run_app(make_app(), host="127.0.0.1", port=options.port)


main()
