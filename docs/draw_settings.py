"""Write reference/settings.md from the tables of settings: python docs/draw_settings.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from scaler.config import Setting
from scaler.settings import ClientConfig, ClusterConfig, SchedulerConfig, Settings, UiConfig

PAGE = Path(__file__).parent / "reference" / "settings.md"

TEXT = """\
# Settings

<!-- Written by docs/draw_settings.py from the tables in scaler/settings/; a test compares the two. -->

The value of a setting comes from the first of these four places that has one:

1. the command line, or an argument in code: `scaler_scheduler --crash-limit 5`, `Scheduler(crash_limit=5)`;
2. the environment: a variable named `SCALER_` and the name of the setting in capitals, as in `SCALER_CRASH_LIMIT=5`.
   On and off are `true` and `false`, and commas separate the parts of a list. An empty variable is ignored;
3. a file in the working directory: `scaler.toml`, or the tables `[tool.scaler.scheduler]`, `[tool.scaler.cluster]`
   and `[tool.scaler.client]` of `pyproject.toml`. If there is a `scaler.toml`, `pyproject.toml` is not read.
   A file that another user could have written is [refused](../explanation/security.md#files-that-are-read);
4. the default.

```toml
# scaler.toml
[scheduler]
crash_limit = 5
logging_paths = ["/dev/stdout", "/var/log/scaler/scheduler.log"]

[cluster]
n_workers = 8
task_timeout_seconds = 600

[client]
address = "tcp://10.0.0.5:2345"
```

A value that cannot work is refused at the start. In code this raises a `ConfigError`; a command prints a line. Both
say where the value came from: `[scheduler] of scaler.toml: unknown setting 'crash_limt'; did you mean 'crash_limit'?`
A variable `SCALER_...` that belongs to no setting is ignored, and each program logs one warning that names it.

A variable applies to all processes that have a setting of that name. In the file, each kind of process has its own
table. `SchedulerClusterCombo` is a scheduler and a cluster: the scheduler reads the table `[scheduler]`, the cluster
the table `[cluster]`. A `Client()` without an address starts a cluster, which also reads the table `[cluster]`. Two
defaults of this cluster differ: it has a worker for each core, and logs messages of the level `WARNING` and above.

A scheduler that is created in code listens only at the address in its arguments. Only clients and commands use the
address in the environment or the file. In code, the default of `logging_paths` is `/dev/stderr`, because the program
itself prints to standard output.

Durations are in seconds. Log levels may be in upper or lower case. Sizes are in bytes, as a number or as a text with a
unit: `500G`, `500GB` and `500GiB` are 500 * 2**30 bytes, `1.5T` is 1.5 * 2**40. K, M, G and T are powers of 1024, in
code, in variables and in files (`keep_bytes = "500G"`). Capabilities, the option `memory` and the quotas of owners take
such sizes, too.

## Scheduler

These settings apply to `scaler_scheduler`, to `Scheduler`, and to the scheduler of a `SchedulerClusterCombo`. In a
combo, `io_threads` has the name `scheduler_io_threads`. The table of these settings in the file is `[scheduler]`.

{scheduler}

## Cluster

These settings apply to `scaler_cluster` (also called `scaler_worker`) and to `Cluster`. They also apply to the cluster
of a `SchedulerClusterCombo`, and to the local cluster of a `Client` or `AsyncClient` without an address:
`Client(preload=["pandas"], capabilities={{"gpu": 1}})`. In a combo and a local cluster, `io_threads` has the name
`worker_io_threads`, and there is no `worker_names`. The table of these settings in the file is `[cluster]`.

{cluster}

## Client

These settings apply to `Client` and `AsyncClient`. The table of these settings in the file is `[client]`.

{client}

## Page

These settings apply to `scaler_ui`. The table of these settings in the file is `[ui]`.

{ui}

## Variables that are not settings

| variable | meaning |
|---|---|
| `SCALER_SHARED_MEMORY` | `0`: large values are sent, also within one machine ([Objects](../howto/objects.md)) |
| `SCALER_KEY_FOLDER` | the folder that contains the folders of [keys](../howto/keys.md), in place of `~/.scaler` |
| `SCALER_GRAPH_BACKEND` | the library that orders the calls of large graphs ([Graphs](../howto/graphs.md)) |
"""


def columns(kind: type[Settings]) -> Iterator[tuple[str, ...]]:
    """Go through the lines of the table of a process."""
    option = ("option",) if any(row.flags for row in kind.rows()) else ()
    yield ("setting", *option, "variable", "default", "meaning")
    yield ("---",) * (4 + len(option))
    for row in kind.rows():
        flags = (options(row),) if option else ()
        yield (f"`{row.name}`", *flags, f"`{row.variable}`", row.default_text, row.text)


def options(row: Setting) -> str:
    """Return how a command has it."""
    flags = row.flags if row.flags[0].startswith("-") else (row.metavar,)
    return ", ".join(f"`{flag}`" for flag in flags)


def table(kind: type[Settings]) -> str:
    """Return the table of a process."""
    return "\n".join(f"| {' | '.join(line)} |" for line in columns(kind))


def page() -> str:
    """Return the page as it should be."""
    return TEXT.format(
        scheduler=table(SchedulerConfig),
        cluster=table(ClusterConfig),
        client=table(ClientConfig),
        ui=table(UiConfig),
    )


if __name__ == "__main__":
    PAGE.write_text(page())
