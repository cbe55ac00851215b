"""The files of `examples/deploy/`: run by a real Slurm, checked by Kubernetes' schemas and by systemd, and started."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import REPOSITORY, command
from tests.support.slurm import port

pytestmark = pytest.mark.more

FILES = REPOSITORY / "examples" / "deploy"
BIN = Path(sys.executable).parent

PROGRAM = """\
from scaler import Client
with Client() as client:
    print("sum", sum(client.map(abs, [(-number,) for number in range(100)])), client.info().workers > 0)
"""


@pytest.mark.foreign
def test_slurm_runs_a_program_with_workers_and_all_ends_with_it(slurm: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    output = tmp_path / "output"
    job = subprocess.run(
        ["sbatch", "--wait", "--nodes=1", f"--output={output}", FILES / "scaler.sbatch", tmp_path / "program.py"],
        env={**slurm, "SCALER_PORT": port()},
        timeout=200,
        check=False,
    )
    assert "sum 4950 True" in output.read_text()
    assert "scheduler: ended" in output.read_text()
    assert "Killed" not in output.read_text()
    assert job.returncode == 0


def documents() -> list[Any]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((FILES / "kubernetes.yaml").read_text()))


@pytest.mark.parametrize("version", ["1.25", "1.34"])
def test_kubernetes_takes_the_manifest(version: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    kinds = [kubernetes_validate.validate(document, version, strict=True) for document in documents()]
    assert len(kinds) == 3


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Keys that are mounted as a secret is: links to links, in a folder that others can enter."""
    made = tmp_path / "keys"
    new = [sys.executable, "-m", "scaler.cli.keys", "new", "tcp://scaler-scheduler:2345", "--folder", made]
    subprocess.run(new, check=True, capture_output=True)
    mounted = tmp_path / "secret"
    made.rename(mounted.with_name("..2026"))
    mounted.mkdir(mode=0o755)
    mounted.with_name("..2026").rename(mounted / "..2026")
    (mounted / "..2026").chmod(0o755)
    (mounted / "..data").symlink_to("..2026")
    for file in (mounted / "..2026").iterdir():
        file.chmod(0o644)
        (mounted / file.name).symlink_to(f"..data/{file.name}")
    return mounted


def test_the_probes_of_kubernetes_check_the_scheduler(secret: Path, tmp_path: Path) -> None:
    scheduler, service, worker = documents()
    container = scheduler["spec"]["template"]["spec"]["containers"][0]
    number = port()
    probes = [
        [part.replace("2345", number) for part in container[name]["exec"]["command"]]
        for name in ("readinessProbe", "livenessProbe")
    ]
    assert not is_there([*probes[0][:-1], "0.5"])
    places = {"/secret": str(secret), "/tmp/keys": str(tmp_path / "own"), "2345": number}

    def here(parts: list[str]) -> list[str]:
        for there, place in places.items():
            parts = [part.replace(there, place) for part in parts]
        return parts

    name, *arguments = here(container["args"])
    clusters = worker["spec"]["template"]["spec"]
    _, address, *options = clusters["containers"][0]["args"]
    assert address == f"tcp://{service['metadata']['name']}:2345"
    assert clusters["terminationGracePeriodSeconds"] > int(options[-1])
    with command(name.removeprefix("scaler_"), *arguments, prefix=here(container["command"])) as running:
        running.wait_for("only programs with a key can connect")
        assert all(map(is_there, probes))
        places["/tmp/keys"] = str(tmp_path / "of-a-worker")
        with command(
            "cluster", f"tcp://127.0.0.1:{number}", *here(options), prefix=here(clusters["containers"][0]["command"])
        ) as cluster:
            cluster.wait_for("up: scheduler")


def is_there(probe: list[str]) -> bool:
    return subprocess.run([BIN / probe[0], *probe[1:]], capture_output=True, timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("name", ["scaler-scheduler.service", "scaler-cluster.service"])
def test_systemd_takes_the_units(name: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / name
    unit.write_text((FILES / name).read_text().replace("/opt/venv/bin", str(BIN)).replace("=scaler\n", "=root\n"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60, check=False
    )
    assert not [line for line in checked.stderr.splitlines() if name in line]
    [line] = [line for line in unit.read_text().splitlines() if line.startswith("ExecStart=")]
    module = "scheduler" if "scheduler" in name else "cluster"
    importlib.import_module(f"scaler.cli.{module}").make_parser().parse_args(line.split()[1:])
