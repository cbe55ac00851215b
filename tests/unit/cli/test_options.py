"""What the commands' options become: settings, each under its name, with the same defaults."""

from __future__ import annotations

import pytest

from scaler.cli import cluster, scheduler
from scaler.cli.options import make_settings
from scaler.config import ClusterConfig, LoggingConfig, SchedulerConfig

ADDRESS = "tcp://127.0.0.1:2345"


def test_the_defaults_of_the_commands_are_those_of_the_settings() -> None:
    options = scheduler.make_parser().parse_args([ADDRESS])
    assert make_settings(SchedulerConfig, options) == SchedulerConfig(ADDRESS)
    options = cluster.make_parser().parse_args([ADDRESS, "-n", "3"])
    assert make_settings(ClusterConfig, options) == ClusterConfig(ADDRESS, 3)


def test_each_option_of_a_cluster_is_the_setting_of_its_name() -> None:
    line = [ADDRESS, "-n", "2", "-hi", "1", "-ds", "9", "-tts", "7.5", "-gc", "3", "-tm", "5", "-it", "4", "-hps"]
    assert make_settings(ClusterConfig, cluster.make_parser().parse_args(line)) == ClusterConfig(
        ADDRESS,
        2,
        heartbeat_interval_seconds=1,
        death_timeout_seconds=9,
        task_timeout_seconds=7.5,
        garbage_collect_interval_seconds=3,
        trim_memory_threshold_bytes=5,
        hard_processor_suspend=True,
        io_threads=4,
    )


def test_each_option_is_the_setting_of_its_name() -> None:
    numbers = ["-ct", "7.5", "-qs", "9", "-mt", "5", "-ls", "0", "-lbt", "3", "--crash-limit", "2"]
    line = [ADDRESS, *numbers, "-p", "False", "-ll", "DEBUG", "-lp", "/a", "/b"]
    assert make_settings(SchedulerConfig, scheduler.make_parser().parse_args(line)) == SchedulerConfig(
        ADDRESS,
        client_timeout_seconds=7.5,
        max_number_of_tasks_waiting=5,
        load_balance_seconds=0,
        load_balance_trigger_times=3,
        per_worker_queue_size=9,
        crash_limit=2,
        protected=False,
        logging=LoggingConfig(("/a", "/b"), "DEBUG"),
    )


def test_a_number_that_is_none_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        scheduler.make_parser().parse_args([ADDRESS, "-qs", "many"])
    assert exit_info.value.code == 2
    assert "-qs" in capsys.readouterr().err
