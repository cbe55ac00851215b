"""Settings in the working directory count only if no user but this one and root could have written them."""

from __future__ import annotations

import grp
import os
import pwd
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scaler.client.client import Client
from scaler.config import ConfigError
from scaler.settings import ClientConfig, ClusterConfig, SchedulerConfig, Settings, SymphonyConfig, UiConfig
from scaler.settings.sources import configured_values

STRANGER = 4711


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a working directory with settings, which only this user can write."""
    for name in list(os.environ):
        if name.startswith("SCALER_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "scaler.toml")
    tmp_path.chmod(0o755)
    return tmp_path


def write(file: Path, text: str = "client.timeout_seconds = 9\n", mode: int = 0o644) -> None:
    file.unlink(missing_ok=True)
    file.write_text(text)
    file.chmod(mode)


def as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the files of this process appear to belong to another user, even if it runs as root."""
    me = os.geteuid()
    for name in ("stat", "lstat", "fstat"):
        seen = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, seen=seen, **more: owned(seen(*args, **more), me, STRANGER))


def owned(status: os.stat_result, me: int, owner: int) -> Any:
    fields = {name: getattr(status, name) for name in dir(status) if name.startswith("st_")}
    return SimpleNamespace(**fields | {"st_uid": owner if status.st_uid == me else status.st_uid})


def refusal(kind: type[Settings] = ClientConfig) -> str:
    with pytest.raises(ConfigError) as error:
        configured_values(kind, [row.name for row in kind.rows()])
    return str(error.value)


def timeout() -> float | None:
    value: float | None = configured_values(ClientConfig, ["timeout_seconds"]).get("timeout_seconds")
    return value


def test_a_settings_file_of_this_user_counts(folder: Path) -> None:
    assert timeout() == 9


def test_a_settings_file_of_another_user_is_refused_with_its_owner_and_a_remedy(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_another_user(monkeypatch)
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert refusal().startswith(f"{folder}/scaler.toml belongs to {STRANGER}, and this program runs as {me}; ")
    assert f"chown -h {me} {folder}/scaler.toml" in refusal()
    with pytest.raises(ConfigError, match=f"belongs to {STRANGER}"):
        Client()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_refuses_settings_in_the_folder_of_another_user(folder: Path) -> None:
    assert timeout() == 9
    os.chown(folder / "scaler.toml", STRANGER, STRANGER)
    assert f"scaler.toml belongs to {STRANGER}, and this program runs as root" in refusal()
    os.chown(folder / "scaler.toml", 0, 0)
    os.chown(folder, STRANGER, STRANGER)
    assert refusal().startswith(f"{folder} belongs to {STRANGER}")


def test_a_file_of_another_user_without_settings_is_ignored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(folder / "scaler.toml", "# nothing\n")
    write(folder / "pyproject.toml", "[project]\ndependencies = [\n'scaler==1.0',\n]\n")
    as_another_user(monkeypatch)
    assert timeout() is None
    (folder / "scaler.toml").unlink()
    assert timeout() is None
    write(folder / "pyproject.toml", "[tool.scaler.client]\ntimeout_seconds = 9\n")
    assert "pyproject.toml belongs to" in refusal()


@pytest.mark.parametrize("mode", [0o646, 0o666])
def test_a_settings_file_that_all_users_can_write_is_refused(folder: Path, mode: int) -> None:
    assert timeout() == 9
    (folder / "scaler.toml").chmod(mode)
    assert f"can be written by others: its mode is {mode:o}; " in refusal()
    assert f"(chmod go-w {folder}/scaler.toml)" in refusal()


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777])
def test_settings_in_a_folder_writable_by_others_are_refused_unless_it_is_sticky(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    shared_group(monkeypatch)
    folder.chmod(mode)
    assert refusal().startswith(f"{folder}, of ")
    folder.chmod(mode | 0o1000)
    assert timeout() == 9


def shared_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name="team", gr_mem=["eve"]))


def test_a_settings_file_may_be_writable_by_the_private_group_of_its_owner(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, user = folder / "scaler.toml", pwd.getpwuid(os.geteuid())
    group = SimpleNamespace(gr_name=user.pw_name, gr_mem=[user.pw_name])
    monkeypatch.setattr(grp, "getgrgid", lambda gid: group)
    os.chown(file, -1, user.pw_gid)
    file.chmod(0o664)
    assert timeout() == 9
    for group.gr_name, group.gr_mem in (("team", []), (user.pw_name, ["eve"])):
        file.chmod(0o600)
        file.chmod(0o664)  # its status has changed, so it is checked again
        assert "scaler.toml" in refusal()
    if os.geteuid() == 0:
        group.gr_name, group.gr_mem = "root", []
        os.chown(file, -1, STRANGER)
        assert "can be written by others" in refusal()


def test_both_ends_of_a_link_to_settings_are_checked(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    elsewhere.chmod(0o755)
    write(elsewhere / "a.toml", "client.timeout_seconds = 8\n")
    (folder / "scaler.toml").unlink()
    (folder / "scaler.toml").symlink_to(elsewhere / "a.toml")
    assert timeout() == 8
    if os.geteuid() == 0:
        os.chown(folder / "scaler.toml", STRANGER, STRANGER, follow_symlinks=False)
        (elsewhere / "a.toml").touch()
        assert f"scaler.toml belongs to {STRANGER}" in refusal()
        os.chown(folder / "scaler.toml", 0, 0, follow_symlinks=False)
    elsewhere.chmod(0o777)
    (elsewhere / "a.toml").touch()
    assert refusal().startswith(f"{elsewhere}, of ")


def test_a_pipe_in_place_of_the_settings_file_is_ignored_without_waiting(folder: Path) -> None:
    (folder / "scaler.toml").unlink()
    os.mkfifo(folder / "scaler.toml")
    assert timeout() is None


@pytest.mark.parametrize("kind", [ClusterConfig, SchedulerConfig])
def test_a_logging_configuration_can_run_code_and_is_refused_in_a_settings_file(
    folder: Path, kind: type[Settings]
) -> None:
    write(folder / "logging.ini", "")
    write(folder / "scaler.toml", f"{kind.TABLE}.logging_config_file = '{folder}/logging.ini'\n")
    assert refusal(kind) == (
        f"[{kind.TABLE}] of scaler.toml: logging_config_file is not taken from a file that is found in the working "
        "directory, because what it names can run code; give it as an argument, with --logging-config-file, or as "
        "SCALER_LOGGING_CONFIG_FILE"
    )


@pytest.mark.parametrize("kind", [ClientConfig, ClusterConfig, SymphonyConfig, UiConfig])
def test_trusted_users_could_run_code_and_are_refused_in_a_settings_file(folder: Path, kind: type[Settings]) -> None:
    write(folder / "scaler.toml", f"{kind.TABLE}.trust_users = [65534]\n")
    option = "" if kind is ClientConfig else ", with --trust-users"
    assert refusal(kind).startswith(
        f"[{kind.TABLE}] of scaler.toml: trust_users is not taken from a file that is found"
    )
    assert refusal(kind).endswith(f"give it as an argument{option}, or as SCALER_TRUST_USERS")
