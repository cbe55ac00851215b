"""TaskOptions: how tasks run, as a value that is checked when it is made and can be used any number of times.

Made by the user and by the client; read when a call is made ready. A new option is a field here and a field of
`RunOptions`, which travels. Must never: hold data of a single call.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from scaler.config import ConfigError
from scaler.wire.priority import LEAST, MOST
from scaler.wire.structs import RunOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskOptions:
    """How tasks run. None means the setting of the client.

    Args:
        name: of the tasks, in messages, logs and the `repr` of their futures. The default is the name of the function.
        priority: of your waiting tasks, those with a greater priority go first; from -32,768 to 32,767, 0 by default.
            Nested tasks go before all tasks of less depth, and have the priority of their parent by default.
        profiling: whether to measure time and memory of the tasks, for `ScalerFuture.profiling_info`.
        at_most_once: whether no task may be started a second time. A task that may have been started, and was lost with
            its worker process, worker or scheduler, then fails with a `ScalerError` instead of running again.

    Raises:
        TypeError: if an option is of the wrong type.
        ConfigError: if the priority is out of range; it is a `ValueError`.
    """

    name: str | None = None
    priority: int | None = None
    profiling: bool | None = None
    at_most_once: bool | None = None
    run_options: bytes = field(default=b"", init=False, repr=False, compare=False)
    """the options that travel, as `RunOptions`"""

    def __post_init__(self) -> None:
        _check("name", self.name, str)
        _check("priority", self.priority, int)
        _check("profiling", self.profiling, bool)
        _check("at_most_once", self.at_most_once, bool)
        if self.priority is not None and not LEAST <= self.priority <= MOST:
            raise ConfigError(f"priority must be from {LEAST} to {MOST}, not {self.priority}")
        options = RunOptions(profiling=bool(self.profiling), at_most_once=bool(self.at_most_once))
        object.__setattr__(self, "run_options", options.encode())

    def over(self, others: TaskOptions) -> TaskOptions:
        """Return these options, completed with those of `others`."""
        said = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return replace(others, **{name: value for name, value in said.items() if value is not None})


def _check(option: str, value: object, kind: type) -> None:
    is_one = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if value is not None and not is_one:
        raise TypeError(f"{option} must be {'an' if kind is int else 'a'} {kind.__name__}, not {value!r}")
