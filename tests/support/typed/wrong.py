"""Calls that a type checker must refuse: the lines with the comment `wrong`. Never executed."""

from __future__ import annotations

from scaler import AsyncClient, Client, TaskOptions, current_task


def square(x: float) -> float:
    return x * x


def check(client: Client) -> None:
    client.submit(square, "text")  # wrong
    client.submit(square)  # wrong
    client.submit(square, 1, 2)  # wrong
    client.submit(square, y=1)  # wrong
    client.submit("square", 1)  # wrong
    client.options(retries=1).submit(square, "text")  # wrong
    client.options(retries="x")  # wrong
    client.options(retry_on="ValueError")  # wrong
    client.options(priority="x")  # wrong
    client.options(name=1)  # wrong
    client.options(no_such_option=1)  # wrong
    TaskOptions(profiling="yes")  # wrong
    text: str = client.submit(square, 1).result()  # wrong
    number: float = client.submit(square, 1)  # wrong
    client.map(square, [1, 2])  # wrong
    client.run_on_all(square)  # wrong
    client.options(timeout=1).run_on_all(square, "text")  # wrong
    client.map(square, [(1.0,)], progress="x")  # wrong
    values: dict[str, int] = client.get({}, [], block=False)  # wrong
    print(text, number, values)


async def check_async(client: AsyncClient) -> None:
    client.submit(square, "text")  # wrong
    client.submit(square)  # wrong
    client.options(no_such_option=1)  # wrong
    client.options(memory=1.5)  # wrong
    await client.run_on_all(square, "text")  # wrong
    text: str = await client.submit(square, 1)  # wrong
    texts: list[str] = await client.map(square, [(1.0,)])  # wrong
    task = current_task()
    if task is not None:
        task.report("half")  # wrong
    print(text, texts)
