"""A web service: the value at risk of the portfolio in a request, computed on workers with `AsyncClient`.

The prices are those of `value_at_risk.py`. In one process, the service computes in its event loop, one request after
the other. With workers, the loop is free and answers other requests meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np
from aiohttp import ClientSession, web
from side_by_side import arguments, side_by_side
from value_at_risk import CONFIDENCE, MONTHS, SHARES, monthly_returns

from scaler import AsyncClient, Client

PATHS = 60_000
Portfolio = list[float]
Compute = Callable[[Portfolio], Awaitable[float]]


def value_at_risk(returns: np.ndarray, portfolio: Portfolio) -> float:
    """Return the value at risk of a year for a portfolio with these parts of the money in each share: the task."""
    months = np.random.default_rng(1).integers(len(returns), size=(PATHS, MONTHS))
    outcomes = np.expm1(returns[months].sum(axis=1)) @ np.array(portfolio)
    return float(-np.quantile(outcomes, 1 - CONFIDENCE))


def make_app(compute: Compute) -> web.Application:
    """Return a service that answers `POST /risk`; the body has the part of the money in each share."""

    async def risk(request: web.Request) -> web.Response:
        portfolio = [float(part) for part in await request.json()]
        if len(portfolio) != len(SHARES):
            raise web.HTTPBadRequest(text=f"name {len(SHARES)} parts: {', '.join(SHARES)}\n")
        return web.json_response({"value_at_risk": await compute(portfolio)})

    app = web.Application(handler_args={"handler_cancellation": True})  # a disconnect cancels the task
    app.router.add_post("/risk", risk)
    return app


async def ask(compute: Compute, portfolios: list[Portfolio]) -> list[float]:
    """Start the service, send it the requests for all portfolios at once, as its users would, and end it."""
    runner = web.AppRunner(make_app(compute))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        async with ClientSession() as session:

            async def one(portfolio: Portfolio) -> float:
                async with session.post(f"http://{host}:{port}/risk", json=portfolio) as response:
                    return float((await response.json())["value_at_risk"])

            return await asyncio.gather(*map(one, portfolios))
    finally:
        await runner.cleanup()


async def in_the_loop(returns: np.ndarray, portfolios: list[Portfolio]) -> list[float]:
    """Compute in the process of the service."""

    async def compute(portfolio: Portfolio) -> float:
        return value_at_risk(returns, portfolio)

    return await ask(compute, portfolios)


async def on_workers(returns: np.ndarray, portfolios: list[Portfolio]) -> list[float]:
    """Compute on the workers of the cluster that `SCALER_ADDRESS` names."""
    async with AsyncClient() as client:
        prices = await client.send_object(returns)

        async def compute(portfolio: Portfolio) -> float:
            return await client.submit(value_at_risk, prices, portfolio)

        return await ask(compute, portfolios)


def main() -> None:
    """Ask for many portfolios at once."""
    options = arguments("Serve values at risk.", 100, "requests")
    returns = monthly_returns()
    portfolios = np.random.default_rng(7).dirichlet(np.ones(len(SHARES)), options.size).round(3).tolist()

    def together(_client: Client) -> list[float]:
        return asyncio.run(on_workers(returns, portfolios))

    risks, verdict = side_by_side(lambda: asyncio.run(in_the_loop(returns, portfolios)), together, options.workers)

    best, worst = int(np.argmin(risks)), int(np.argmax(risks))
    for word, number in (("least", best), ("most", worst)):
        parts = ", ".join(f"{share} {part:.0%}" for share, part in zip(SHARES, portfolios[number], strict=True))
        print(f"{word} at risk: {risks[number]:.1%} of {parts}")
    print(verdict)


if __name__ == "__main__":
    main()
