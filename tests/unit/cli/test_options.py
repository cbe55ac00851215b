"""Options of commands: each sets the setting of its name, with the same default."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from scaler.cli import cluster, jobs, keys, scale, scheduler, symphony_cluster, top, ui
from scaler.cli.options import read_settings
from scaler.keys.folder import KeyFolder
from scaler.settings import ClusterConfig, LoggingConfig, SchedulerConfig, Settings
from scaler.version import __version__

ADDRESS = "tcp://127.0.0.1:2345"


COMMANDS = pytest.mark.parametrize(("command", "kind"), [(scheduler, SchedulerConfig), (cluster, ClusterConfig)])


def scheduler_of(*line: str) -> SchedulerConfig:
    return read_settings(scheduler.make_parser(), SchedulerConfig, line)


def cluster_of(*line: str) -> ClusterConfig:
    return read_settings(cluster.make_parser(), ClusterConfig, line)


def refusal(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    """Return the last line of a scheduler command that does not start."""
    with pytest.raises(SystemExit) as exit_info:
        scheduler_of(*line)
    assert exit_info.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_the_defaults_of_the_commands_are_those_of_the_settings() -> None:
    assert scheduler_of(ADDRESS) == SchedulerConfig(ADDRESS)
    assert cluster_of(ADDRESS, "-n", "3") == ClusterConfig(ADDRESS, 3)


def test_each_option_of_a_cluster_sets_the_setting_of_its_name() -> None:
    line = ["-n", "2", "-hi", "1", "-ds", "9", "-tts", "7.5", "-gc", "3", "-tm", "5", "-it", "4", "-hps"]
    assert cluster_of(*line, ADDRESS, "-wn", "a,b", "-el", "uvloop", "--engine", "own") == ClusterConfig(
        ADDRESS,
        2,
        ("a", "b"),
        heartbeat_interval_seconds=1,
        death_timeout_seconds=9,
        task_timeout_seconds=7.5,
        garbage_collect_interval_seconds=3,
        trim_memory_threshold_bytes=5,
        hard_processor_suspend=True,
        io_threads=4,
        event_loop="uvloop",
        engine="own",
    )


def test_without_an_address_commands_use_that_of_the_key_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("SCALER_ADDRESS", "SCALER_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    KeyFolder.make(tmp_path / "keys", [ADDRESS])
    file = str(tmp_path / "keys" / "worker.json")
    assert cluster_of("--key-file", file) == ClusterConfig(ADDRESS, key_file=file)
    assert cluster_of("tcp://127.0.0.1:1", "--key-file", file).address == "tcp://127.0.0.1:1"
    monkeypatch.setenv("SCALER_KEY_FILE", file)
    assert cluster_of().address == ADDRESS
    monkeypatch.setenv("SCALER_ADDRESS", "tcp://127.0.0.1:1")
    assert cluster_of("--key-file", file).address == "tcp://127.0.0.1:1"
    monkeypatch.delenv("SCALER_ADDRESS")
    for command in (cluster_of, lambda *line: top.main(list(line))):
        with pytest.raises(SystemExit):
            command("--key-file", "nope.json")
        assert "nope.json" in capsys.readouterr().err.splitlines()[-1]


def test_each_option_of_a_scheduler_sets_the_setting_of_its_name() -> None:
    numbers = ["-ct", "7.5", "-qs", "9", "-mt", "-1", "-ls", "0", "-lbt", "3", "--crash-limit", "2", "-wt", "8"]
    numbers += ["--policy", "FIFO", "--transfer-window-bytes", "300000"]
    more = ["-ot", "4", "--io-threads", "2", "-e", "uvloop", "-p", "False", "-ll", "Debug", "-lp", "/a", "/b"]
    assert scheduler_of(ADDRESS, *numbers, *more) == SchedulerConfig(
        ADDRESS,
        io_threads=2,
        client_timeout_seconds=7.5,
        worker_timeout_seconds=8,
        object_retention_seconds=4,
        load_balance_seconds=0,
        load_balance_trigger_times=3,
        per_worker_queue_size=9,
        crash_limit=2,
        policy="fifo",
        transfer_window_bytes=300_000,
        protected=False,
        event_loop="uvloop",
        logging=LoggingConfig(("/a", "/b"), "DEBUG"),
    )


def test_a_switch_has_an_option_for_on_and_one_for_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [scheduler_of(ADDRESS, *line).protected for line in (["-p"], ["-p", "no"], ["--no-protected"])] == [
        True,
        False,
        False,
    ]
    monkeypatch.setenv("SCALER_HARD_PROCESSOR_SUSPEND", "yes")
    assert cluster_of(ADDRESS).hard_processor_suspend
    assert not cluster_of(ADDRESS, "--no-hard-processor-suspend").hard_processor_suspend


def test_the_command_line_overrides_the_environment_which_overrides_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scaler.toml").write_text(f"[scheduler]\naddress = '{ADDRESS}'\ncrash_limit = 5\nio_threads = 5\n")
    monkeypatch.setenv("SCALER_CRASH_LIMIT", "6")
    assert scheduler_of() == SchedulerConfig(ADDRESS, crash_limit=6, io_threads=5)
    assert scheduler_of("--crash-limit", "7").crash_limit == 7


def test_a_bad_value_ends_the_command_and_says_where_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = "scaler_scheduler: error: "
    option = "argument -qs/--per-worker-queue-size: per_worker_queue_size must be"
    assert refusal(capsys, ADDRESS, "-qs", "many") == f"{error}{option} a number, not 'many'"
    assert refusal(capsys, ADDRESS, "-qs", "0") == f"{error}{option} at least 1, not 0"
    assert "address is required" in refusal(capsys)
    monkeypatch.setenv("SCALER_LOGGING_LEVEL", "loud")
    assert refusal(capsys, ADDRESS).startswith(f"{error}environment variable SCALER_LOGGING_LEVEL: logging_level must")


@pytest.mark.parametrize(
    ("command", "line", "hint"),
    [
        (scheduler, ["tcp:/127.0.0.1:1"], "looks like"),
        (scheduler, ["tcp://127.0.0.1"], "looks like"),
        (scheduler, ["tcp://127.0.0.1:99999"], "65535"),
        (scheduler, [ADDRESS, "-qs", "0"], "per_worker_queue_size"),
        (scheduler, [ADDRESS, "-p", "maybe"], "protected must be True or False"),
        (scheduler, [ADDRESS, "-e", "quick"], "builtin"),
        (cluster, [ADDRESS, "-n", "0"], "n_workers"),
        (cluster, [ADDRESS, "-wn", "a,a"], "different"),
        (cluster, [ADDRESS, "-n", "3", "-wn", "a,b"], "as many worker_names"),
        (cluster, [ADDRESS, "-hi", "0"], "heartbeat"),
    ],
)
def test_a_bad_argument_ends_the_command_with_one_sentence(
    command: ModuleType, line: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        command.main(line)
    assert exit_info.value.code == 2
    assert hint in capsys.readouterr().err.splitlines()[-1]


@COMMANDS
def test_help_shows_each_setting_with_its_default(
    command: ModuleType, kind: type[Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        command.main(["-h"])
    text = " ".join(capsys.readouterr().out.split())
    for row in kind.rows():
        assert (f"{row.text} (default: {row.default_text})" if row.default_text else row.text) in text, row.name


@COMMANDS
def test_each_command_prints_its_version(
    command: ModuleType, kind: type[Settings], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        command.main(["--version"])
    assert exit_info.value.code == 0
    assert capsys.readouterr().out == f"scaler_{kind.TABLE} {__version__}\n"


WITHOUT_TABLE = pytest.mark.parametrize(
    ("command", "line"), [(top, []), (jobs, ["list"]), (scale, ["--max", "1", "--up", "scaler_cluster"])]
)


@WITHOUT_TABLE
def test_help_of_commands_without_a_table_does_not_mention_the_file(
    command: ModuleType, line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for options in (["-h"], [ADDRESS, *line, "-h"]):
        with pytest.raises(SystemExit):
            command.make_parser().parse_args(options)
    text = capsys.readouterr().out
    assert "--trust-users" in text
    assert "scaler.toml" not in text


@WITHOUT_TABLE
def test_commands_without_a_table_read_trusted_users_from_the_option_or_the_variable(
    command: ModuleType, line: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = command.make_parser().parse_args([ADDRESS, *line])
    assert (parsed.trust_users, parsed.key_file) == ((), None)
    monkeypatch.setenv("SCALER_TRUST_USERS", "root,4711")
    assert command.make_parser().parse_args([ADDRESS, *line]).trust_users == (0, 4711)
    parsed = command.make_parser().parse_args([ADDRESS, *line, "--trust-users", "4712"])
    assert parsed.trust_users == (4712,)


def test_a_user_that_the_machine_does_not_know_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cluster_of(ADDRESS, "--trust-users", "no-such-user")
    assert "this machine knows no user 'no-such-user'; give a name" in capsys.readouterr().err


SIMILAR = [
    (cluster, [ADDRESS, "--num_workers", "2"], "unrecognized arguments: --num_workers;", "--num-of-workers"),
    (cluster, ["--num_workers", "2"], "unrecognized arguments: --num_workers;", "--num-of-workers"),
    (cluster, [ADDRESS, "--object_memory_bytes=5"], "--object_memory_bytes=5", "--object-memory-bytes"),
    (cluster, [ADDRESS, "--n-workers", "2"], "--n-workers;", "--num-of-workers"),
    (scheduler, [ADDRESS, "--keep_shard"], "--keep_shard", "--keep-shared"),
    (symphony_cluster, [ADDRESS, "service", "--worker_names", "a"], "--worker_names;", "--worker-name"),
    (top, [ADDRESS, "--onse"], "--onse", "--once"),
    (ui, [ADDRESS, "--prot", "5"], "--prot;", "--port"),
    (scale, [ADDRESS, "--up", "x", "--max", "1", "--capability", "gpu"], "--capability;", "--capabilities"),
    (scale, [ADDRESS, "--up", "x", "--mx", "1"], "unrecognized arguments: --mx;", "--max"),
    (keys, ["--fodler", "x", "list"], "unrecognized arguments: --fodler;", "--folder"),
    (keys, ["--rle", "client", "allow", "bob"], "unrecognized arguments: --rle;", "--role"),
    (keys, ["alow", "alice"], "invalid choice: 'alow'", "allow"),
    (keys, ["allow", "alice", "--role", "klient"], "invalid choice: 'klient'", "client"),
    (keys, ["list", "--foldr", "x"], "--foldr;", "--folder"),
    (jobs, [ADDRESS, "shw"], "'shw' is not a command", "show"),
    (jobs, [ADDRESS, "--timout", "3", "wait", "x"], "unrecognized arguments: --timout;", "--timeout"),
]


@pytest.mark.parametrize(("command", "line", "message", "meant"), SIMILAR)
def test_the_error_for_an_unknown_word_suggests_the_most_similar_one(
    command: ModuleType, line: list[str], message: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(line)
    assert ended.value.code == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error
    assert error.endswith(f"; did you mean {meant!r}?")


def test_the_error_for_a_word_without_similar_ones_has_no_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, ADDRESS, "--zzz", "1").endswith("unrecognized arguments: --zzz")
