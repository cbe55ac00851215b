"""IPython's `%autoreload 2` in a real IPython, of now and of before it changed functions in place: a task runs the code
that the notebook runs, whichever part of a module was edited.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BEFORE = Path(sys.prefix) / ".ipython-8"
"""where the Makefile installs an IPython from before that"""

pytestmark = [pytest.mark.more, pytest.mark.foreign]

NOTEBOOK = """
import os, pathlib, sys
import IPython
from IPython.core.interactiveshell import InteractiveShell

DESK = "from rates import quote, RATE\\ndef _half(x): return x / 2\\ndef price(x): return 2 * _half(quote(x)) * RATE\\n"
RATES = "RATE = 1\\ndef quote(x): return x\\n"
now = 1_700_000_000

def write(name, text):
    global now
    now += 10
    pathlib.Path(name).write_text(text)
    os.utime(name, (now, now))

write("desk.py", DESK)
write("rates.py", RATES)
shell = InteractiveShell.instance()

def cell(code):
    shell.run_cell(code).raise_error()

def compare(what):
    cell(f"print({what!r}, price(10), *(value for client in (plain, sending) for value in ("
         "client.submit(price, 10).result(), *set(client.map(price, [(10,)] * 4)), "
         "client.submit(lambda: desk.price(10)).result())))")

print(IPython.version_info[0])
cell("%load_ext autoreload\\n%autoreload 2")
cell("import desk, rates; from desk import price; from scaler import Client")
cell("plain, sending = Client(n_workers=1), Client(n_workers=1, modules=[desk, rates])")
compare("at first")
write("desk.py", DESK := DESK.replace("return 2 *", "return 4 *"))
compare("itself")
write("desk.py", DESK := DESK.replace("x / 2", "x"))
compare("helper")
write("rates.py", RATES.replace("return x", "return x + 1"))
compare("module")
write("desk.py", DESK := DESK.replace("_half(x): return x", "_half(x, y=1): return x + y"))
compare("default")
write("desk.py", DESK := DESK.replace("y=1", "y=2"))
compare("default only")
shell.push({"write": write, "DESK": DESK})
cell("write('desk.py', DESK.replace('return 4 *', 'return 5 *'))\\n"
     "print('not yet', price(10), *(client.submit(price, 10).result() for client in (plain, sending)))")
compare("now")
cell("plain.disconnect(); sending.disconnect()")
"""

EXPECTED = {
    "at first": 10,
    "itself": 20,
    "helper": 40,
    "module": 44,
    "default": 48,
    "default only": 52,
    "not yet": 52,
    "now": 65,
}


@pytest.mark.parametrize("version", ["now", "before"])
def test_tasks_run_the_code_that_the_notebook_runs(version: str, tmp_path: Path) -> None:
    present = pytest.importorskip("IPython").version_info[0]
    if version == "now" and present < 9:
        pytest.skip("this Python is too old for IPython 9")
    if version == "before" and not BEFORE.exists():
        pytest.skip("the Makefile could not install IPython 8")
    program = tmp_path / "notebook.py"
    program.write_text(NOTEBOOK)
    paths = [str(tmp_path), *([str(BEFORE)] if version == "before" else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, *lines = done.stdout.splitlines()
    assert (int(first) >= 9) == (version == "now")
    said = {}
    for line in lines:
        words = line.split()
        values = [word for word in words if word.replace(".", "").isdigit()]
        said[" ".join(words[: len(words) - len(values)])] = set(map(float, values))
    assert said == {what: {value} for what, value in EXPECTED.items()}
    # Once for each module of the client that does not send them, and nothing else.
    assert [line.split()[:3] for line in done.stderr.splitlines()] == [
        ["the", "module", "desk"],
        ["the", "module", "rates"],
    ]
