"""Foreign words: names of other systems raise an error that names those of Scaler, and are no attributes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scaler
from scaler import AsyncClient, Client, ConfigError
from scaler.client.foreign_words import OF_ASYNC_CLIENTS, OF_ASYNC_FUTURES, OF_CLIENTS, OF_FUTURES
from scaler.texts import shown
from tests.support.fake_scheduler import FakeScheduler


def check(answering: object, words: dict[str, str]) -> None:
    for word, ours in words.items():
        assert not hasattr(answering, word)
        assert not hasattr(type(answering), word)
        assert word not in dir(answering)
        with pytest.raises(AttributeError) as caught:
            getattr(answering, word)
        assert str(caught.value) == f"'{type(answering).__name__}' object has no attribute '{word}': write {ours}"


def test_the_error_for_a_word_of_another_system_names_the_word_of_scaler(client: Client) -> None:
    check(client, OF_CLIENTS)
    check(client.options(priority=1), OF_CLIENTS)
    check(client.submit(abs, -1), OF_FUTURES)
    with pytest.raises(AttributeError, match=r"write \[future\.result\(\) for future in futures\]$"):
        client.gather([])  # type: ignore[attr-defined]  # type checkers do not know it


def test_the_error_for_a_word_of_another_system_names_the_word_of_scaler_with_asyncio(scheduler: FakeScheduler) -> None:
    async def look() -> None:
        async with AsyncClient(scheduler.address) as client:
            check(client, OF_ASYNC_CLIENTS)
            check(client.options(priority=1), OF_ASYNC_CLIENTS)
            check(client.submit(abs, -1), OF_ASYNC_FUTURES)

    asyncio.run(look())


USES: list[Callable[[Any], Any]] = [
    lambda future: future + 1,
    lambda future: 1 + future,
    lambda future: sum([future, future]),
    lambda future: future * 2.5,
    lambda future: future / future,
    lambda future: -future,
    abs,
    lambda future: future > 1,
    lambda future: sorted([future, future]),
    float,
    int,
    lambda future: f"{future:.2f}",
    lambda future: np.ones(2) + future,
    lambda future: np.asarray(future, float),
]


def test_the_error_for_a_future_used_as_its_value_says_how_to_get_the_value(
    client: Client, scheduler: FakeScheduler
) -> None:
    async def use() -> None:
        async with AsyncClient(scheduler.address) as other:
            future = other.submit(abs, -1)
            refuse(future, "'AsyncFuture' is the future of a value, and not the value: write await future")
            assert await future == 1

    def refuse(future: Any, sentence: str) -> None:
        for use in USES:
            with pytest.raises(TypeError) as caught:
                use(future)
            assert sentence in f"{caught.value} {caught.value.__cause__}"
        assert (f"{future}", str(future == 1), len({future, future})) == (str(future), "False", 1)
        assert np.array([future, future]).tolist() == [future, future]

    refuse(client.submit(abs, -1), "'ScalerFuture' is the future of a value, and not the value: write future.result()")
    asyncio.run(use())


def test_the_error_for_items_that_are_not_iterable_shows_an_example(client: Client, scheduler: FakeScheduler) -> None:
    wrong: Any = client

    async def use(call: str, items: Any) -> None:
        async with AsyncClient(scheduler.address) as other:
            made = getattr(other, call)(abs, items)
            await (anext(made) if call == "map_unordered" else made)

    for call in ("map", "map_unordered", "start"):
        for items in (None, 3, abs):
            text = (
                rf"^{call} takes an iterable of the arguments of each task, such as .*, not {re.escape(shown(items))}$"
            )
            with pytest.raises(TypeError, match=text):
                getattr(wrong, call)(abs, items)
            with pytest.raises(TypeError, match=text):
                asyncio.run(use(call, items))
        with pytest.raises(TypeError, match=r"take the result of the future first$"):
            getattr(wrong, call)(abs, client.submit(abs, -1))
    for futures in (None, client.submit(abs, -1)):
        with pytest.raises(TypeError, match=r"^progress\(\) takes an iterable of futures, such as \[future\], not"):
            scaler.progress(futures)  # type: ignore[arg-type]


def test_an_unknown_word_is_the_usual_attribute_error(client: Client) -> None:
    with pytest.raises(AttributeError, match=r"^'Client' object has no attribute 'fetch'$"):
        client.fetch()  # type: ignore[attr-defined]


def test_a_class_derived_from_a_client_may_have_a_method_named_as_in_another_system(scheduler: FakeScheduler) -> None:
    class Gathering(Client):
        def gather(self) -> int:
            return 3

    with Gathering(scheduler.address) as client:
        assert client.gather() == 3


def test_a_number_in_place_of_the_address_is_refused_with_n_workers_as_a_hint() -> None:
    wrong: Any = 8
    for make in (Client, AsyncClient):
        with pytest.raises(ConfigError, match=r"the address of a scheduler, not 8; .* write n_workers=8$"):
            make(wrong)


def test_a_misspelt_argument_of_a_constructor_has_a_suggestion() -> None:
    for make in (Client, AsyncClient):
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'n_worker'; did you mean 'n_workers'\?$"):
            make(n_worker=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"keyword argument 'max_workers'; did you mean 'n_workers'\?$"):
        Client(max_workers=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"; did you mean 'address'\?$"):
        scaler.SchedulerClusterCombo(2, adress="")  # type: ignore[call-arg]


def test_a_misspelt_option_has_a_suggestion(client: Client, scheduler: FakeScheduler) -> None:
    async def of_asyncio() -> None:
        async with AsyncClient(scheduler.address) as other:
            other.options(priorities=3)  # type: ignore[call-arg]

    for name, meant in (("max_retries", "retries"), ("timeouts", "timeout")):
        with pytest.raises(TypeError, match=rf"^Client\.options\(\) got an .* '{name}'; did you mean '{meant}'\?$"):
            client.options(**{name: 3})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r'write client\.options\(capabilities={"gpu": 1}\)$'):
        client.options(num_gpus=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'priorities'; did you mean 'priority'\?$"):
        asyncio.run(of_asyncio())


def test_the_error_for_a_keyword_argument_of_a_map_says_where_it_belongs(
    client: Client, scheduler: FakeScheduler
) -> None:
    wrong: Any = client

    async def of_asyncio(method: str) -> None:
        async with AsyncClient(scheduler.address) as other:
            if method == "map":
                await other.map(abs, [(1,)], chunksize=3)  # type: ignore[call-overload]
            async for _ in other.map_unordered(abs, [(1,)], chunksize=3):  # type: ignore[call-overload]
                pass

    for call, text in (
        (lambda: wrong.map(abs, [(1,)], chunksize=3), "leave it out: small tasks are sent together automatically"),
        (
            lambda: wrong.map(abs, [(1,)], retries=3),
            r"as an option of the task: client\.options\(retries=\.\.\.\)\.map",
        ),
        (lambda: wrong.map(abs, [(1,)], time_out=3), r"did you mean 'timeout'\?"),
        (
            lambda: wrong.map(round, [(1,)], ndigits=3),
            r"client\.map\(functools\.partial\(fn, ndigits=\.\.\.\), \.\.\.\)",
        ),
        (lambda: wrong.map_unordered(abs, [(1,)], max_retries=3), r"client\.options\(retries=\.\.\.\)\.map_unordered"),
        (lambda: asyncio.run(of_asyncio("map")), "leave it out"),
        (lambda: asyncio.run(of_asyncio("map_unordered")), "leave it out"),
    ):
        with pytest.raises(TypeError, match=text):
            call()


def test_a_misspelt_option_among_the_arguments_of_a_task_has_a_suggestion(client: Client) -> None:
    text = r"'max_retries'; as an option of the task: client\.options\(retries=\.\.\.\)\.submit"
    with pytest.raises(TypeError, match=text):
        client.submit(abs, -1, max_retries=3)  # type: ignore[call-arg]


def test_a_timeout_that_is_no_number_is_a_type_error(client: Client, scheduler: FakeScheduler) -> None:
    scheduler.answers_tasks = False
    future, wrong = client.submit(abs, -1), "3"
    for method in (future.result, future.exception):
        with pytest.raises(TypeError, match=r"^timeout must be a number of seconds, not '3'$"):
            method(wrong)  # type: ignore[operator]
