"""Bootstrap: each processor has what is made before the fork, and nothing else changes."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scaler.settings import LoggingConfig
from scaler.wire.codec import codec
from tests.support.node import Node

pytestmark = pytest.mark.processes


@pytest.fixture
def result_of() -> Iterator[Callable[..., Any]]:
    """Return the result of a function in the first processor of a node with these settings."""
    nodes: list[Node] = []

    def call(function: Callable[[], Any], **settings: Any) -> Any:
        node = Node(**settings)
        nodes.append(node)
        node.run(node.task(function))
        node.until(lambda: node.results)
        return node.values()[0]

    yield call
    for node in nodes:
        node.close()


def was_made_before_the_fork(wanted: object) -> bool:
    """Return whether the collector does not know the value: the fork server freezes its objects."""
    return not any(each is wanted for each in gc.get_objects())


def first_handler_was_made_before_the_fork() -> bool:
    return was_made_before_the_fork(logging.getLogger().handlers[0])


def test_a_log_shared_by_all_workers_is_set_up_before_the_fork(result_of: Callable[..., Any]) -> None:
    assert result_of(first_handler_was_made_before_the_fork, logging=LoggingConfig(("/dev/stdout", "/dev/null")))


def test_a_log_of_each_worker_is_opened_by_its_processors(result_of: Callable[..., Any], tmp_path: Any) -> None:
    logging_config = LoggingConfig(("/dev/stdout", str(tmp_path / "log")))
    assert not result_of(first_handler_was_made_before_the_fork, logging=logging_config)
    assert [path.name for path in tmp_path.iterdir()] == ["log.w0"]


def test_the_first_processor_inherits_the_codecs_of_clients(result_of: Callable[..., Any]) -> None:
    assert {"ClientToScheduler", "SchedulerToClient"} <= set(result_of(lambda: list(codec._CODECS)))


def test_the_fork_server_does_not_repeat_warnings_about_variables(
    result_of: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCALER_NONSENSE", "1")
    assert result_of(int, logging=LoggingConfig(("/dev/stderr",))) == 0
    assert "SCALER_NONSENSE" not in capfd.readouterr().err
