"""Foreign words: names that users of other systems type, and what to write instead in Scaler.

The classes that users hold have them as attributes, and errors about unknown keyword arguments use them. Reading a
foreign word raises an `AttributeError` that shows what to write. So `hasattr` stays False, and neither `dir` nor type
checkers know the word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NoReturn, TypeVar

from scaler.texts import did_you_mean

C = TypeVar("C", bound=type)

_WHERE_IT_RAN = (
    "story({}).worker, also after its end; client.trace(path) records where all tasks run, rows of maps included"
)

_OF_BOTH_CLIENTS = {
    **dict.fromkeys(("apply", "apply_async", "remote"), "submit(fn, *args)"),
    **dict.fromkeys(("close", "terminate"), "disconnect(); shutdown() ends the scheduler and all workers, too"),
    **dict.fromkeys(
        ("compute", "persist"),
        "dask.config.set(scheduler=scaler.integrations.dask.get(client)) for what Dask computes, and submit(fn, *args) "
        "for a call",
    ),
    **dict.fromkeys(("put", "scatter"), "send_object(data), and pass the reference to the tasks"),
    **dict.fromkeys(("map_async", "starmap_async"), "[client.submit(fn, *args) for args in items], or map_unordered"),
    "cancel": "future.cancel(), or clear() for all tasks",
    "get_result": "future.result(), or get(graph, keys) for a graph",
    "imap": "map(fn, [(x,) for x in xs]), or map_unordered for results as they arrive",
    "imap_unordered": "map_unordered(fn, [(x,) for x in xs])",
    "restart": "restart_workers()",
    "run": "run_on_all(fn)",
    "scheduler_info": "info(), or workers()",
    "upload_file": "upload(path)",
    "who_has": _WHERE_IT_RAN.format("future"),
}
OF_CLIENTS = {
    **_OF_BOTH_CLIENTS,
    "as_completed": "concurrent.futures.as_completed(futures), or map_unordered",
    "gather": "[future.result() for future in futures]",
    "wait": "concurrent.futures.wait(futures)",
}
OF_ASYNC_CLIENTS = {
    **_OF_BOTH_CLIENTS,
    "as_completed": "asyncio.as_completed(futures), or map_unordered",
    "gather": "await asyncio.gather(*futures)",
    "wait": "await asyncio.wait(futures)",
}
_OF_BOTH_FUTURES = {
    "key": "name, or task_id",
    "ready": "done()",
    "status": "done(), or story().state",
    "successful": "exception() is None; it raises if the task was cancelled",
    "worker": f"scaler.current_task().worker in the task, or {_WHERE_IT_RAN.format('')}",
}
OF_FUTURES = {**_OF_BOTH_FUTURES, "get": "result()", "wait": "result(timeout), or concurrent.futures.wait([future])"}
OF_ASYNC_FUTURES = {**_OF_BOTH_FUTURES, "get": "await future", "wait": "await asyncio.wait([future], timeout=seconds)"}
_OF_BOTH_JOBS = {
    **dict.fromkeys(("abort", "kill", "stop", "terminate"), "cancel()"),
    **dict.fromkeys(("delete", "purge", "remove"), "forget()"),
    **dict.fromkeys(("compute", "gather", "get", "join", "result"), "results(), or wait() for its end"),
    **dict.fromkeys(("error", "errors", "exception"), "failures()"),
    **dict.fromkeys(("id", "job_id", "key"), "name"),
    **dict.fromkeys(("rerun", "restart", "resubmit", "resume"), "retry(), or retry(fn) with a corrected function"),
    "failed": "progress().failed for the number of failed rows, or failures()",
    "successful": "progress(): its is_complete is True and its failed is 0",
}
OF_JOBS = {
    **_OF_BOTH_JOBS,
    **dict.fromkeys(("done", "ready", "running"), "state, which is 'open' or 'paused' until the job ends"),
    "cancelled": "state == 'canceled'",
    "status": "state, or progress() with the numbers of rows",
    "total": "rows",
}
OF_ASYNC_JOBS = {
    **_OF_BOTH_JOBS,
    **dict.fromkeys(("done", "ready", "running"), "await state(), which is 'open' or 'paused' until the job ends"),
    "cancelled": "await state() == 'canceled'",
    "status": "await state(), or await progress() with the numbers of rows",
    "total": "await rows()",
}

_KEYWORDS = {
    **dict.fromkeys(("batch_size", "chunksize"), "leave it out: small tasks are sent together automatically"),
    **dict.fromkeys(("job", "job_name", "jobs"), "write job=, an argument of map, map_unordered and start"),
    "keep_for": "it is an argument of map, map_unordered and start, together with job=",
    "on_change": "it is an argument of map, map_unordered and start, together with job=",
    **dict.fromkeys(("gpu", "gpus", "num_gpus", "resources"), 'write client.options(capabilities={"gpu": 1})'),
    **dict.fromkeys(("keep", "modules", "n_workers"), "it is an argument of Client"),
    "progress": "it is an argument of map; scaler.progress(futures) shows a bar for futures",
    "retry": "write client.options(retries=...)",
    "return_exceptions": "it is an argument of map, map_unordered and job.results",
    "window": "it is an argument of map and map_unordered",
}
_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_OPERATORS = (*_ARITHMETIC, *(f"r{each}" for each in _ARITHMETIC), "lt", "le", "gt", "ge", "neg", "abs", "float", "int")

_SIMILAR = 0.75
"""The similarity, from 0 to 1, above which an unknown keyword argument is taken for a misspelt option."""


class _ForeignWord:
    """An attribute that raises when it is read; a `__getattr__` would slow down all other attributes."""

    def __init__(self, word: str, ours: str) -> None:
        self._word, self._ours = word, ours

    def __get__(self, _instance: object, owner: type) -> object:
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self._word!r}: write {self._ours}")


def hints_at(words: Mapping[str, str]) -> Callable[[C], C]:
    """Return a decorator that adds the given foreign words to a class."""

    def decorate(cls: C) -> C:
        for word, ours in words.items():
            setattr(cls, word, _ForeignWord(word, ours))
        return cls

    return decorate


def refuses_operators(instead: str) -> Callable[[C], C]:
    """Return a decorator for classes of futures: their operators then raise a `TypeError` that shows what to write.

    Only operators of numbers are refused: other libraries take a class with `__iter__` or `__getitem__` for a sequence.
    """

    def decorate(cls: C) -> C:
        text = f"{cls.__name__!r} is the future of a value, and not the value: write {instead}"

        def refuse(_future: object, *_others: object) -> NoReturn:
            raise TypeError(text)

        def format_one(future: object, form: str) -> str:
            return str(future) if not form else refuse(future)

        for operator in _OPERATORS:
            setattr(cls, f"__{operator}__", refuse)
        cls.__format__ = format_one  # type: ignore[assignment]  # a method of each of its objects
        return cls

    return decorate


def without_foreign_words(cls: type, names: Iterable[str]) -> list[str]:
    """Return the attributes of a class that are not foreign words."""
    return [name for name in names if not any(type(vars(each).get(name)) is _ForeignWord for each in cls.__mro__)]


def keyword_hint(name: str, own: Iterable[str], options: Iterable[str] = (), call: str = "") -> str:
    """Return what to write instead of an unknown keyword argument of a call, as the end of a sentence.

    Args:
        own: the keyword arguments of the call.
        options: the names of the task options that apply to the call.
    """
    if name in _KEYWORDS:
        return f"; {_KEYWORDS[name]}"
    meant = did_you_mean(name, own)
    option = (
        "" if meant else did_you_mean(name, options, _SIMILAR, "; as an option of the task: client.options({}=...)")
    )
    return meant or (f"{option}.{call}(...)" if option else "")
