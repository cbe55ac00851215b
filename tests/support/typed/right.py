"""Calls that a type checker must accept, with the types of their results. Never executed."""

from __future__ import annotations

from typing import Any

from typing_extensions import assert_type

from scaler import AsyncClient, AsyncFuture, Client, FailedRow, JobProgress, ScalerFuture, TaskOptions, current_task


def square(x: float) -> float:
    return x * x


def named(n: int, *, name: str = "") -> str:
    return name * n


def check_submit(client: Client) -> None:
    assert_type(client.submit(square, 4), ScalerFuture[float])
    assert_type(client.submit(square, x=4).result(), float)
    assert_type(client.submit(named, 4, name="x").result(timeout=1), str)
    assert_type(client.submit(square, 4, profiling=True), ScalerFuture[float])
    assert_type(client.submit(square, 4, name="x"), ScalerFuture[float])
    assert_type(client.submit(square, client.send_object(2.0)), ScalerFuture[float])
    assert_type(client.submit(len, "abc").result(), int)
    assert_type(client.options(retries=2).submit(square, 4).result(), float)
    assert_type(client.options(TaskOptions(retries=1), retry_on=(OSError, ValueError)).submit(abs, -1).result(), int)


def check_map(client: Client) -> None:
    assert_type(client.map(square, [(1.0,), [2.0]]), list[float])
    assert_type(client.starmap(square, ((x,) for x in (1.0, 2.0)), progress=True), list[float])
    assert_type(client.map(square, [(1.0,)], return_exceptions=True), list[float | BaseException])
    for value in client.options(priority=1).map_unordered(square, [(1.0,)]):
        assert_type(value, float)


def check_get(client: Client, block: bool) -> None:
    assert_type(client.get({"a": (square, 2.0)}, ["a"]), dict[str, Any])
    assert_type(client.get({"a": (square, 2.0)}, ["a"], block=False), dict[str, ScalerFuture[Any]])
    assert_type(client.get({"a": (square, 2.0)}, ["a"], block=block), dict[str, Any])


async def check_async(client: AsyncClient) -> None:
    assert_type(client.submit(square, 4), AsyncFuture[float])
    assert_type(await client.options(retries=1, memory="1G").submit(square, x=4), float)
    assert_type(await client.map(square, [(1.0,)]), list[float])
    assert_type(await client.map(square, [(1.0,)], return_exceptions=True), list[float | BaseException])
    async for value in client.map_unordered(square, [(1.0,)]):
        assert_type(value, float)
    assert_type(await client.run_on_all(square, 2), dict[str, float])
    assert_type((await client.info()).workers, int)


def check_progress(client: Client) -> None:
    task, progress = current_task(), client.submit(square, 4).progress()
    if task is not None and progress is not None:
        task.report(progress.fraction, progress.text)


async def check_await(client: Client) -> None:
    assert_type(await client.submit(square, 2.0), float)


def check_presence(client: Client) -> None:
    assert_type(client.wait_for_workers(2, timeout=1).workers, int)
    assert_type([worker.name for worker in client.workers()], list[str])
    assert_type(client.run_on_all(square, 2), dict[str, float])


def check_jobs(client: Client) -> None:
    assert_type(client.map(square, [(1.0,)], job="squares", keep_for="1y"), list[float])
    assert_type(list(client.map_unordered(square, [(1.0,)], job="squares", keep_for="ever")), list[float])
    job = client.start(square, [(1.0,)], job="squares", keep_for=60)
    assert_type((job.state, job.rows), tuple[str, int])
    assert_type(job.wait(progress=True), JobProgress)
    assert_type(job.failures(), list[FailedRow])
    job.retry(square)
    assert_type(list(job), list[Any])


async def check_async_jobs(client: AsyncClient) -> None:
    assert_type(await client.map(square, [(1.0,)], job="squares", keep_for="1y"), list[float])
    async for value in client.map_unordered(square, [(1.0,)], job="squares", on_change="keep", keep_for=60):
        assert_type(value, float)
    job = await client.job("squares")
    assert_type((await job.state(), await job.rows()), tuple[str, int])
    assert_type(await job.wait(progress=True), JobProgress)
    await job.retry(square)
    async for value in job:
        print(value)
