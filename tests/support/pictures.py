"""Frames of scaler_top as they should look: `python -m tests.support.pictures` writes them again, to be reviewed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scaler.endpoint import Endpoint
from scaler.monitor.model.model import News
from scaler.monitor.top.frame import FrameInput, draw
from scaler.monitor.top.grid import Grid
from scaler.monitor.top.view import Target, TopView
from tests.support import monitored_cluster as cluster
from tests.support.monitored import news

FOLDER = Path(__file__).parents[1] / "unit" / "monitor" / "top" / "pictures"
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "watching.md"
PICTURE_BEGINS = "```text\nscheduler "
HEARD_AT = 100.0
ADDRESS = "ipc:///no/such/folder/monitor"  # the text depends on whether the file exists


@dataclass
class Picture:
    """A state of the cluster, the choices of the user, and the size of the screen."""

    width: int
    height: int
    news: Callable[[], Iterator[News]]
    view: dict[str, Any] = field(default_factory=dict)
    seconds_later: float = 0.5
    moment: dict[str, Any] = field(default_factory=dict)

    def draw(self) -> Grid:
        model = cluster.model_of(self.news(), now=HEARD_AT)
        moment = FrameInput(HEARD_AT + self.seconds_later, Endpoint.parse(ADDRESS), **self.moment)
        return draw(model, TopView(**self.view), self.width, self.height, moment)


def nothing() -> Iterator[News]:
    return iter(())


def watched() -> Iterator[News]:
    """Yield the news of the made-up cluster, and those that are published only while a viewer shows details."""
    yield from cluster.loaded()
    yield news("processors", *cluster.processors())
    yield news("objects", *cluster.objects())
    yield news(f"task/{cluster.EXAMPLE.hex()}", *cluster.task())


FIRST_WORKER = Target("worker", (bytes(8), 0))
PICTURES = {
    "loaded-80x24": Picture(80, 24, cluster.loaded, {"sorts": {"workers": "-cpu"}}),
    "loaded-200x50": Picture(200, 50, cluster.loaded, {"sorts": {"workers": "-cpu"}}),
    "loaded-120x40": Picture(120, 40, cluster.loaded),
    "loaded-60x15": Picture(60, 15, cluster.loaded, {"sorts": {"workers": "-suspended"}}),
    "loaded-40x10": Picture(40, 10, cluster.loaded),
    "loaded-39x9": Picture(39, 9, cluster.loaded),
    "ascii-200x50": Picture(200, 50, cluster.loaded, moment={"is_unicode": False}),
    "per-second-80x24": Picture(80, 24, cluster.loaded, {"per_second": True, "is_paused": True}),
    "by-host-80x24": Picture(80, 24, cluster.loaded, {"by_host": True, "sorts": {"workers": "-rss"}}),
    "filtered-80x24": Picture(80, 24, cluster.loaded, {"filter": "rome08"}),
    "filtered-out-80x24": Picture(80, 24, cluster.loaded, {"filter": "paris"}),
    "typing-80x24": Picture(80, 24, cluster.loaded, {"filter": "!rome", "is_typing": True}),
    "functions-80x24": Picture(80, 24, cluster.loaded, {"name": "functions"}),
    "clients-80x24": Picture(80, 24, cluster.loaded, {"name": "clients"}),
    "failures-80x24": Picture(80, 24, cluster.loaded, {"name": "failures", "selected": {"failures": cluster.FAILURE}}),
    "events-80x24": Picture(80, 24, cluster.loaded, {"name": "events"}),
    "jobs-80x24": Picture(80, 24, cluster.loaded, {"name": "jobs", "selected": {"jobs": cluster.JOB}}),
    "jobs-200x50": Picture(200, 50, cluster.loaded, {"name": "jobs"}),
    "no-jobs-80x24": Picture(80, 24, cluster.idle, {"name": "jobs"}),
    "job-80x24": Picture(80, 24, cluster.loaded, {"details": [Target("job", cluster.JOB)]}),
    "objects-80x24": Picture(80, 24, watched, {"name": "objects"}),
    "objects-60x15": Picture(60, 15, watched, {"name": "objects"}),
    "no-objects-80x24": Picture(80, 24, cluster.loaded, {"name": "objects"}),
    "object-80x24": Picture(80, 24, watched, {"details": [Target("object", cluster.TABLE)]}),
    "no-failures-80x24": Picture(80, 24, cluster.idle, {"name": "failures"}),
    "worker-80x24": Picture(80, 24, watched, {"details": [FIRST_WORKER]}),
    "function-80x24": Picture(80, 24, cluster.loaded, {"details": [Target("function", cluster.PRICE)]}),
    "failure-80x24": Picture(80, 24, cluster.loaded, {"details": [Target("failure", cluster.FAILURE)]}),
    "host-80x24": Picture(80, 24, watched, {"details": [Target("host", "rome10")]}),
    "tasks-80x24": Picture(80, 24, watched, {"name": "tasks"}),
    "groups-80x24": Picture(80, 24, watched, {"name": "waiting"}),
    "processors-80x24": Picture(80, 24, watched, {"name": "processors"}),
    "task-80x24": Picture(80, 24, watched, {"details": [Target("task", cluster.EXAMPLE)]}),
    "help-80x24": Picture(80, 24, cluster.loaded, {"is_help": True}),
    "idle-80x24": Picture(80, 24, cluster.idle),
    "no-workers-80x24": Picture(80, 24, cluster.without_workers),
    "restarted-80x24": Picture(80, 24, cluster.restarted),
    "silent-80x24": Picture(80, 24, cluster.loaded, seconds_later=7, moment={"is_late": True}),
    "nothing-80x24": Picture(80, 24, nothing, moment={"is_late": True}),
    "waiting-80x24": Picture(80, 24, nothing),
    "odd-names-80x24": Picture(80, 24, cluster.odd_names),
    "odd-names-200x50": Picture(200, 50, cluster.odd_names),
}


def text_of(grid: Grid) -> str:
    return "\n".join(grid.lines()).rstrip("\n") + "\n"


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    time.tzset()
    FOLDER.mkdir(exist_ok=True)
    for name, picture in PICTURES.items():
        (FOLDER / f"{name}.txt").write_text(text_of(picture.draw()))
    before, _, rest = PAGE.read_text().partition(PICTURE_BEGINS)
    after = rest.partition("\n```")[2]
    PAGE.write_text(f"{before}```text\n{text_of(PICTURES['loaded-80x24'].draw())}```{after}")
