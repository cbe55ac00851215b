"""The seed of `hash(text)`: which programs execute themselves again, once, and what they keep."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scaler.process import hash_seed
from tests.support.processes import REPOSITORY

PROGRAM = """\
import os, signal, sys
with open(os.environ["STARTS"], "a") as file:
    file.write("x")
print("before", end=" ")
from scaler.process import hash_seed

def main():
    hash_seed.restart_with_seed("a_command")

def show():
    import json
    print(json.dumps({
        "pid": os.getpid(), "hash": hash("AAPL"), "argv": sys.argv[1:], "stdin": sys.stdin.read(),
        "flags": [sys.flags.optimize, sys.flags.dev_mode, sys.warnoptions, sys._xoptions.get("frozen_modules")],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "is_hangup_ignored": signal.getsignal(signal.SIGHUP) is signal.SIG_IGN,
        "name": open("/proc/self/comm").read().strip() if sys.platform == "linux" else "", "command": sys.orig_argv,
    }))
    print(sum(1 for _ in open(os.environ["STARTS"]).read()))
"""
RUN = "main()\nshow()\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a_command", "program.py"):
        (tmp_path / name).write_text(PROGRAM + RUN)
    (tmp_path / "part.py").write_text(PROGRAM)
    return tmp_path


def run(folder: Path, *arguments: str, seed: str = "", stdin: str = "a line", **options: Any) -> dict[str, Any]:
    """Run a program in a folder. Return its output, `starts` and `is_same_pid`."""
    starts = folder / "starts"
    starts.write_text("")
    variables = {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{folder}", "STARTS": str(starts)}
    process = subprocess.Popen(
        [*arguments], cwd=folder, env={**os.environ, **variables}, text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options,
    )  # fmt: skip
    output, errors = process.communicate(stdin, timeout=60)
    assert process.returncode == 0, errors
    first, second = output.replace("before ", "").splitlines()
    return {**json.loads(first), "starts": int(second), "is_same_pid": json.loads(first)["pid"] == process.pid}


def hash_with(seed: str) -> int:
    program = "print(hash('AAPL'))"
    variables = {**os.environ, "PYTHONHASHSEED": seed}
    return int(subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, check=True).stdout)


OPTIONS = ("-O", "-W", "error", "-X", "frozen_modules=off", "-Xdev")


@pytest.mark.processes
def test_a_command_reexecutes_itself_once_and_keeps_its_start_conditions(folder: Path) -> None:
    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    own = (*OPTIONS, "a_command", "a b", "-c", "ä\udcff")
    shown = run(folder, sys.executable, *own, preexec_fn=prepare)
    assert shown["hash"] == hash_with(hash_seed.SEED)
    assert (shown["starts"], shown["is_same_pid"]) == (2, True)
    assert shown["argv"] == ["a b", "-c", "ä\udcff"]
    assert shown["command"] == [sys.executable, *own]
    assert shown["stdin"] == "a line"
    assert shown["flags"] == [1, True, ["default", "error"], "off"]
    assert shown["blocked"] == [signal.SIGUSR2]
    assert shown["is_hangup_ignored"]


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="needs the names of processes in /proc")
def test_a_script_that_was_started_by_its_name_keeps_its_name(folder: Path) -> None:
    script = folder / "a_command"
    script.write_text(f"#!{sys.executable} -O\n{PROGRAM}{RUN}")
    script.chmod(0o755)
    shown = run(folder, "./a_command", "a b")
    assert (shown["name"], shown["argv"], shown["flags"][0]) == ("a_command", ["a b"], 1)
    assert (shown["hash"], shown["starts"], shown["is_same_pid"]) == (hash_with(hash_seed.SEED), 2, True)


@pytest.mark.processes
@pytest.mark.parametrize("seed", ["5", "random"])
def test_the_hash_seed_of_the_user_wins(folder: Path, seed: str) -> None:
    shown = run(folder, sys.executable, "a_command", seed=seed)
    assert shown["starts"] == 1
    assert (shown["hash"] == hash_with("5")) == (seed == "5")
    assert shown["hash"] != hash_with(hash_seed.SEED)


IN_A_THREAD = "import threading\nthread = threading.Thread(target=main)\nthread.start()\nthread.join()\nshow()\n"
BY_MULTIPROCESSING = """\
import multiprocessing, part
def run():
    part.main()
    part.show()
if __name__ == "__main__":
    process = multiprocessing.get_context({!r}).Process(target=run)
    process.start()
    process.join()
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    "arguments",
    [
        ("program.py",),
        ("-m", "program"),
        ("-c", PROGRAM + RUN),
        ("-", "a"),
        ("-E", "a_command"),
        ("-I", "in_path/a_command"),
        ("-m", "cProfile", "-o", os.devnull, "a_command"),
        ("thread/a_command",),
        ("spawn.py",),
        ("fork/a_command",),
        ("another/a_command",),
        ("gone/a_command",),
    ],
    ids=lambda arguments: " ".join(arguments[:2])[:20],
)
def test_a_program_does_not_reexecute_itself_if_that_is_useless_or_repeats_work(
    folder: Path, arguments: tuple[str, ...]
) -> None:
    programs = {
        "in_path": f"import sys\nsys.path.insert(0, {str(REPOSITORY)!r})\n{PROGRAM}{RUN}",
        "thread": PROGRAM + IN_A_THREAD,
        "spawn": BY_MULTIPROCESSING.format("spawn"),
        "fork": BY_MULTIPROCESSING.format("fork"),
        "another": "import caller\n",
        "caller": PROGRAM + RUN,
        "gone": f"{PROGRAM}sys.executable = '/no/such/python'\n{RUN}assert 'PYTHONHASHSEED' not in os.environ\n",
    }
    for name, text in programs.items():
        for file in (folder / f"{name}.py", folder / name / "a_command"):
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
    is_from_stdin = arguments[0] == "-"
    shown = run(folder, sys.executable, *arguments, stdin=PROGRAM + RUN if is_from_stdin else "a line")
    assert shown["starts"] == (2 if arguments == ("spawn.py",) else 1)
    assert shown["hash"] != hash_with(hash_seed.SEED)


@pytest.mark.parametrize(("own", "seed"), [(None, "0"), ("", "0"), ("5", "5"), ("random", "random")])
def test_a_started_program_gets_a_hash_seed_unless_the_user_has_set_one(
    monkeypatch: pytest.MonkeyPatch, own: str | None, seed: str
) -> None:
    if own is None:
        monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    else:
        monkeypatch.setenv("PYTHONHASHSEED", own)
    assert hash_seed.environment() == {**os.environ, "PYTHONHASHSEED": seed}
    assert hash_seed.is_random() == (own == "random")
