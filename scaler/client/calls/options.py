"""TaskOptions: how tasks are to run, as a value that is checked when it is made, and used any number of times.

Made by the user and by the client; read when a call is made ready. A new option of a task is a field here and one of
`RunOptions`, which travels. Must never: hold what belongs to one call.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from scaler.config import ConfigError
from scaler.wire.priority import LEAST, MOST
from scaler.wire.structs import RunOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskOptions:
    """How tasks are to run. What is None is as the client has it.

    Args:
        name: what the tasks are called in messages, logs and the `repr` of their futures; without one they have the
            name of their function.
        priority: which of your tasks that wait go first: the greater, from -32,768 to 32,767. 0 is that of a task
            without one; a negative one waits for all others. Tasks that a task submits go before those of less depth
            whatever their priority, and have that of their parent if they have none.
        profiling: whether to measure what the tasks take, for `ScalerFuture.profiling_info`.

    Raises:
        TypeError: if an option is of the wrong type.
        ConfigError: if the priority is out of range; it is a `ValueError`.
    """

    name: str | None = None
    priority: int | None = None
    profiling: bool | None = None
    run_options: bytes = field(default=b"", init=False, repr=False, compare=False)
    """what of it travels as `RunOptions`"""

    def __post_init__(self) -> None:
        _check("name", self.name, str)
        _check("priority", self.priority, int)
        _check("profiling", self.profiling, bool)
        if self.priority is not None and not LEAST <= self.priority <= MOST:
            raise ConfigError(f"priority must be from {LEAST} to {MOST}, not {self.priority}")
        object.__setattr__(self, "run_options", RunOptions(profiling=bool(self.profiling)).encode())

    def over(self, others: TaskOptions) -> TaskOptions:
        """Return these options, and those of `others` where there are none."""
        said = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return replace(others, **{name: value for name, value in said.items() if value is not None})


def _check(option: str, value: object, kind: type) -> None:
    is_one = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if value is not None and not is_one:
        raise TypeError(f"{option} must be {'an' if kind is int else 'a'} {kind.__name__}, not {value!r}")
