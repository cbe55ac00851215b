"""TaskOptions: an immutable, validated set of options for tasks, reusable for any number of calls.

Users and clients create it. To add an option, add a field here and one to `RunOptions`, which is what a client sends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from types import FunctionType
from typing import Any, Generic, TypeAlias, TypeVar

from scaler.amounts import CAPABILITIES_MOST, MEMORY, amount_of, check_name
from scaler.client.foreign_words import keyword_hint, without_foreign_words
from scaler.config import ConfigError, check_number, check_whole_number, plain_number
from scaler.errors import class_name
from scaler.texts import shown
from scaler.wire.codec.structs import RunOptions
from scaler.wire.messages.priority import LEAST, MOST
from scaler.wire.messages.seeds import checked_seed, seed_words

WithOptions = TypeVar("WithOptions")
C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
_Check: TypeAlias = Callable[[str, Any], Any]

RETRIES_MOST = 1_000_000
RETRY_DELAY_SECONDS = 0.1
DELAY_MOST_SECONDS = 24 * 3600
FAILURES_MOST = 2**53
TIMEOUT_LEAST_SECONDS, TIMEOUT_MOST_SECONDS = 0.001, 4_000_000


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class TaskOptions:
    """A set of options for tasks. None means the setting of the client.

    Args:
        name: the name of the tasks in messages, logs and the `repr` of their futures; by default that of the function.
        priority: an integer from -32,768 to 32,767, 0 by default; pending tasks of the same owner with a greater
            priority run first. Nested tasks run before all tasks of less depth, and have the priority of their parent
            by default.
        profiling: whether to measure time and memory of the tasks, for `ScalerFuture.profiling_info`.
        retries: the most retries of a task that raised an exception or exceeded its timeout; 0 by default.
        retry_on: the class of the exceptions after which a task is retried, or a tuple of classes; subclasses count,
            too. `Exception` by default.
        retry_delay: seconds before the first retry, 0.1 by default; doubled for each further retry, up to 60.
        timeout: the longest run of a task, in seconds; then it ends with `TimeoutError`. The limit of its worker,
            `task_timeout_seconds`, applies too: the shorter one counts.
        at_most_once: whether a task is never started twice. A task that may have started and was lost with its worker
            process, worker or scheduler then fails with a `ScalerError` instead of running again.
        capabilities: the amount of each capability that a task takes while it runs, such as
            `{"gpu": 1, "memory": "8G"}`. It runs on machines with these amounts free; an amount of 0 only requires the
            capability. A `str` is a whole number followed by K, M, G or T.
        memory: the amount of the capability `memory` that a task takes, such as "8G". It runs on a machine where that
            much of its configured amount is free.
        no_worker_timeout: seconds after which a pending task fails with `NoWorkerError` if in that time no connected
            worker, busy or idle, could have run it. By default it waits.
        max_failures: the failures of a map or job after which it is stopped with `TooManyFailuresError`; until then
            errors are returned as results. An `int` is a number of rows; a `float` below 1 is a fraction of the ended
            rows, applied once 100 rows have ended, and at the end. By default a `map` stops at the first failure, and
            a job of `start` runs all rows. Only for `map`, `map_unordered` and `start`.
        seed: a non-negative integer, or a tuple of them, from which `random`, `numpy.random`, `torch` and
            `current_task().rng()` are seeded for each call: each row of a map from the seed and the number of the row,
            each call of a graph from the seed and its key. The same seed gives the same numbers, wherever a call runs
            and however often (docs/howto/monte-carlo.md). By default, each worker process draws different numbers.

    Raises:
        TypeError: if an option is of the wrong type.
        ConfigError: if a number is out of range, or both `at_most_once` and `retries` are given; it is a `ValueError`.
    """

    name: str | None = None
    priority: int | None = None
    profiling: bool | None = None
    retries: int | None = None
    retry_on: type[BaseException] | tuple[type[BaseException], ...] | None = None
    retry_delay: float | None = None
    timeout: float | None = None
    at_most_once: bool | None = None
    capabilities: Mapping[str, int | str] | None = field(default=None, hash=False)
    memory: int | str | None = None
    no_worker_timeout: float | None = None
    max_failures: float | None = None
    seed: int | tuple[int, ...] | None = None
    run_options: bytes = field(default=b"", init=False, repr=False, compare=False)
    """the options to send for a single call, encoded as `RunOptions`"""
    spawning_options: bytes = field(default=b"", init=False, repr=False, compare=False)
    """the encoded options for the calls of a map or graph: each call combines the seed with a number of its own"""

    def __post_init__(self) -> None:
        _check("name", self.name, str)
        _check("profiling", self.profiling, bool)
        _check("at_most_once", self.at_most_once, bool)
        self._retried()
        self._store_numbers()
        if self.retries and self.at_most_once:
            raise ConfigError(
                "retries run a task a second time, and at_most_once forbids it: leave one of them out, or write "
                "retries=0 or at_most_once=False"
            )
        options = RunOptions(
            profiling=bool(self.profiling),
            at_most_once=bool(self.at_most_once),
            timeout_ms=round((self.timeout or 0) * 1000),
            capabilities=_amounts(self.capabilities, self.memory),
            no_worker_timeout_ms=round((self.no_worker_timeout or 0) * 1000),
            seed=() if self.seed is None else seed_words(self.seed),
            **({} if not self.retries else self._retry_options(self.retries)),
        )
        object.__setattr__(self, "run_options", options.encode())
        object.__setattr__(self, "spawning_options", options._replace(seed_spawns=bool(options.seed)).encode())

    def __repr__(self) -> str:
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return f"TaskOptions({', '.join(f'{name}={value!r}' for name, value in given.items() if value is not None)})"

    def _store_numbers(self) -> None:
        """Check the options that are numbers, and store each of them as a plain `int` or `float`."""
        for name, check in _NUMBERS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(name, plain_number(value)))
        if isinstance(self.capabilities, Mapping):
            amounts = {name: plain_number(amount) for name, amount in self.capabilities.items()}
            object.__setattr__(self, "capabilities", amounts)

    def _retry_options(self, retries: int) -> dict[str, Any]:
        delay = RETRY_DELAY_SECONDS if self.retry_delay is None else self.retry_delay
        names = tuple(map(class_name, self._retried()))
        return {"retries": retries, "retry_on": names, "retry_delay_ms": round(delay * 1000)}

    def _retried(self) -> tuple[type[BaseException], ...]:
        classes: tuple[Any, ...] = self.retry_on if isinstance(self.retry_on, tuple) else (self.retry_on or Exception,)
        for each in classes:
            if not (isinstance(each, type) and issubclass(each, BaseException)):
                raise TypeError(
                    f"retry_on must be an exception class or a tuple of such classes, not {shown(self.retry_on)}"
                )
        return classes

    def over(self, others: TaskOptions) -> TaskOptions:
        """Return a copy of these options. Each option that is None here is taken from `others`."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return replace(others, **{name: value for name, value in given.items() if value is not None})


def _integer(least: int, most: int) -> _Check:
    def check(name: str, value: Any) -> int:
        _check(name, value, int)
        return check_whole_number(name, value, least, most)

    return check


def _seconds(least: float, most: float) -> _Check:
    return lambda name, value: check_number(name, value, least, most)


def _max_failures(name: str, value: Any) -> float:
    if isinstance(value, float) and value >= 1:
        raise ConfigError(
            f"{name} cannot be {value!r}: an int is a number of rows, a float below 1 a fraction of ended rows"
        )
    return check_number(name, value, 0, FAILURES_MOST)


_NUMBERS: Mapping[str, _Check] = {
    "priority": _integer(LEAST, MOST),
    "retries": _integer(0, RETRIES_MOST),
    "retry_delay": _seconds(0, DELAY_MOST_SECONDS),
    "timeout": _seconds(TIMEOUT_LEAST_SECONDS, TIMEOUT_MOST_SECONDS),
    "memory": lambda _name, value: value,  # `_amounts` checks it
    "no_worker_timeout": _seconds(TIMEOUT_LEAST_SECONDS, TIMEOUT_MOST_SECONDS),
    "max_failures": _max_failures,
    "seed": lambda _name, value: checked_seed(value),
}
"""Name of an option -> a function that checks the value of the option and returns the value to store."""

OPTIONS = frozenset(each.name for each in fields(TaskOptions) if each.init)
"""The names of all options."""


def checked(options: object) -> TaskOptions:
    """Return `options`. Raise `TypeError` unless it is a `TaskOptions`."""
    if not isinstance(options, TaskOptions):
        raise TypeError(
            f"options takes keywords or a TaskOptions, not {shown(options)}: write priority=1, or TaskOptions(...)"
        )
    return options


def for_one(options: TaskOptions) -> TaskOptions:
    """Check `options` for one task or graph, and return it. Raise `ConfigError` if `max_failures` is given."""
    if options.max_failures is not None:
        raise ConfigError(
            "max_failures is an option of map, map_unordered and start, which have many tasks: leave it out for this "
            "call"
        )
    return options


def for_each_worker(options: TaskOptions) -> TaskOptions:
    """Check `options` for a function that runs once on each worker, and return it.

    Raises:
        ConfigError: if an option chooses among workers, or applies only to maps and jobs.
    """
    for name in ("capabilities", "memory", "no_worker_timeout"):
        if getattr(options, name) is not None:
            raise ConfigError(
                f"run_on_all runs the function on each worker, whatever its machine has: leave {name} out for this call"
            )
    return for_one(options)


def effective(options: TaskOptions) -> TaskOptions:
    """Check the options of a client, and return them.

    Raises:
        ConfigError: if an option is given without another option that it depends on.
    """
    for name in ("retry_on", "retry_delay"):
        if options.retries is None and getattr(options, name) is not None:
            raise ConfigError(f"{name} has no effect without retries: write retries=3 beside it, or leave it out")
    return options


def for_executor(options: TaskOptions) -> TaskOptions:
    """Check `options` for an executor, which submits tasks one by one, and return it.

    Raises:
        ConfigError: if an option cannot apply to the tasks of an executor.
    """
    if options.seed is not None:
        raise ConfigError(
            "all tasks of an executor, or of joblib, would draw the same numbers from one seed: use client.map, whose "
            "rows have seeds of their own"
        )
    return for_one(options)


def named_as(name: str) -> Callable[[C], C]:
    """Return a class decorator that renames methods to `name.method`, because errors of Python show these names."""

    def decorate(cls: C) -> C:
        for attribute in vars(cls).values():
            if isinstance(attribute, FunctionType):
                attribute.__qualname__ = f"{name}.{attribute.__name__}"
        return cls

    return decorate


def _names_what_was_meant(method: F) -> F:
    """Decorate a method: its errors about unknown options then suggest a known option and name the client's class."""

    @wraps(method)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except TypeError as error:
            here = f"{args[0]._with_options.__qualname__.partition('.')[0]}.{method.__name__}()"  # noqa: SLF001 - `self`
            unknown = [name for name in kwargs if name not in OPTIONS]
            if unknown:
                text = f"{here} got an unexpected keyword argument {unknown[0]!r}" + keyword_hint(unknown[0], OPTIONS)
            else:
                text = str(error).replace(f"{method.__qualname__}()", here)
            raise TypeError(text) from None

    return called  # type: ignore[return-value]


class TakesOptions(ABC, Generic[WithOptions]):
    """The base class of clients with the method `options`."""

    __slots__ = ()

    @abstractmethod
    def _with_options(self, options: TaskOptions) -> WithOptions:
        """Return a client with these options. For an option that is None, the option of this client applies."""

    def __dir__(self) -> list[str]:
        return without_foreign_words(type(self), super().__dir__())

    @_names_what_was_meant
    def options(
        self,
        options: TaskOptions | None = None,
        /,
        *,
        name: str | None = None,
        priority: int | None = None,
        profiling: bool | None = None,
        retries: int | None = None,
        retry_on: type[BaseException] | tuple[type[BaseException], ...] | None = None,
        retry_delay: float | None = None,
        timeout: float | None = None,
        at_most_once: bool | None = None,
        capabilities: Mapping[str, int | str] | None = None,
        memory: int | str | None = None,
        no_worker_timeout: float | None = None,
        max_failures: float | None = None,
        seed: int | tuple[int, ...] | None = None,
    ) -> WithOptions:
        """Return a client with further options for tasks: `client.options(priority=5).submit(fn, 1)`. This client does
        not change. Keywords override `options`, and both override the options of this client. See `TaskOptions`.

        Args:
            options: a set of options.
            name: the name of the tasks, in messages and logs.
            priority: an integer; pending tasks of the same owner with a greater priority run first. 0 by default.
            profiling: whether to measure time and memory of the tasks.
            retries: the most retries of a task that raised an exception or exceeded its timeout.
            retry_on: the exceptions after which a task is retried; `Exception` by default.
            retry_delay: seconds before the first retry, doubled for each further one; 0.1 by default.
            timeout: the longest run of a task, in seconds; then it ends with `TimeoutError`.
            at_most_once: whether a task is never started twice, even if it was lost.
            capabilities: the amount of each capability that a task takes while it runs, such as `{"gpu": 1}`.
            memory: the amount of the capability `memory` that a task takes, such as "8G".
            no_worker_timeout: seconds after which a pending task fails with `NoWorkerError` if in that time no
                connected worker could have run it; by default it waits.
            max_failures: the failures of a map or job after which it is stopped: an `int` is a number of rows, a
                `float` below 1 a fraction of the ended rows.
            seed: an integer, or a tuple of them, for the random numbers of each call: the same wherever it runs.

        Raises:
            TypeError: if an option is of the wrong type.
            ConfigError: if a number is out of range, options contradict each other, or `retry_on` or `retry_delay` is
                given without `retries`; it is a `ValueError`.
        """
        arguments = locals()
        more = TaskOptions(**{name: value for name, value in arguments.items() if name not in {"self", "options"}})
        if options is not None:
            more = more.over(checked(options))
        return self._with_options(more)


def _check(option: str, value: object, cls: type) -> None:
    is_one = isinstance(value, cls) and (cls is bool or not isinstance(value, bool))
    if value is not None and not is_one:
        raise TypeError(f"{option} must be {'an' if cls is int else 'a'} {cls.__name__}, not {shown(value)}")


def _amounts(capabilities: object, memory: int | str | None) -> tuple[tuple[str, int], ...]:
    """Return capabilities as sorted (name, amount) pairs, including `memory`."""
    if capabilities is None:
        capabilities = {}
    if not isinstance(capabilities, Mapping):
        raise TypeError(f'capabilities must be a dict such as {{"gpu": 1}}, not {shown(capabilities)}')
    if memory is not None:
        if MEMORY in capabilities:
            raise ConfigError("memory is given twice, as an option and among the capabilities: leave one of them out")
        capabilities = {**capabilities, MEMORY: amount_of(MEMORY, memory, 1)}
    if len(capabilities) > CAPABILITIES_MOST:
        raise ConfigError(f"a task can require at most {CAPABILITIES_MOST} capabilities, not {len(capabilities)}")
    return tuple(sorted((check_name(name), amount_of(name, amount, 0)) for name, amount in capabilities.items()))
