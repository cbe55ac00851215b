"""The folder of jobs: its owner, its other users, and its content."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from scaler.config import ConfigError
from scaler.jobs import folder
from scaler.jobs.folder import LOCK, JobFolder, JobInUseError, is_expired, job_places, read_jobs
from scaler.jobs.locks import UNKNOWN, Holder, holder_of
from scaler.jobs.names import check_job_name
from scaler.jobs.record import DATABASE, OPEN, JobRecord, JobSummary, JobTerms

TERMS = JobTerms("prices", "alice", b"12345678", b"f" * 16, "price", keep_seconds=10.0, created=1.0)


def test_a_folder_is_made_for_its_user_alone(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "deep" / "keep")
    assert (tmp_path / "deep" / "keep").stat().st_mode & 0o777 == 0o700
    folder.create(TERMS).close()
    assert [path.relative_to(folder.path).as_posix() for path in job_places(folder.path)] == ["alice/prices"]
    folder.close()


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "keep").mkdir(mode=0o755)
    with pytest.raises(ConfigError, match=r"users other than its owner can enter the folder of jobs .*chmod 700"):
        JobFolder(tmp_path / "keep")


def test_a_second_scheduler_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    first = JobFolder(tmp_path / "keep")
    with pytest.raises(ConfigError, match="another scheduler keeps its jobs in"):
        JobFolder(tmp_path / "keep")
    with pytest.raises(ConfigError, match="another scheduler keeps its jobs in"):
        JobFolder(tmp_path / "keep", is_shared=True).create(TERMS)
    first.close()
    JobFolder(tmp_path / "keep").close()


@pytest.mark.parametrize("is_shared", [False, True])
def test_an_owner_may_be_called_lock_even_where_an_earlier_version_has_a_lock_file(
    is_shared: bool, tmp_path: Path
) -> None:
    (tmp_path / "keep").mkdir(mode=0o700)
    (tmp_path / "keep" / "lock").touch(mode=0o600)  # the lock file of the earlier version
    keep = JobFolder(tmp_path / "keep", is_shared=is_shared)
    keep.create(replace(TERMS, owner="lock", name="lock")).close()
    keep.close()
    again = JobFolder(tmp_path / "keep", is_shared=is_shared)
    assert again.open(again.place_of("lock", "lock")).terms.owner == "lock"
    again.close()


def test_a_scheduler_of_an_earlier_version_that_has_the_folder_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "keep").mkdir(mode=0o700)
    with (tmp_path / "keep" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another scheduler keeps its jobs in"):
            JobFolder(tmp_path / "keep")
        fcntl.flock(held, fcntl.LOCK_SH)
        shared = JobFolder(tmp_path / "keep", is_shared=True)
        shared.create(TERMS).close()
        shared.close()
        assert (tmp_path / "keep" / "lock").exists()
    JobFolder(tmp_path / "keep").close()
    assert not (tmp_path / "keep" / "lock").exists()


def test_a_shared_folder_has_a_lock_for_each_job_that_names_its_program(tmp_path: Path) -> None:
    first, second = (JobFolder(tmp_path / "keep", True, Holder(os.getpid(), name)) for name in ("one", "two"))
    record = first.create(TERMS, "prices.py 4711")
    place = second.place_of("alice", "prices")
    second.create(replace(TERMS, name="other")).close()
    with pytest.raises(
        JobInUseError, match=r"^the job 'prices' is in use: prices.py 4711 has it open\. Its"
    ) as refused:
        second.open(place)
    assert refused.value.holder == Holder(os.getpid(), "prices.py 4711")
    assert not refused.value.holder.has_ended
    assert second.is_used(place)
    assert first.is_used(place)
    assert first.in_use_error(place) is None
    assert second.read(place).terms == record.terms
    assert "keep: one. Connect to it, end it" not in str(second.in_use_error(place))
    with pytest.raises(JobInUseError, match=r"another scheduler keeps its jobs in .*/keep: two. Connect to it, end it"):
        JobFolder(tmp_path / "keep")
    first.shut(record)
    assert second.in_use_error(place) is None, "and it is not taken by that"
    first.remove(first.open(place))
    assert second.in_use_error(place) is None
    assert [path.name for path in job_places(second.path)] == ["other"]
    second.create(TERMS).close()
    first.close()
    second.close()


def test_the_holder_in_a_lock_file_has_ended_if_it_names_no_running_program(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert Holder(ended.pid, "a zombie").has_ended
    ended.wait()
    assert Holder(ended.pid, "a process that is gone").has_ended
    assert not Holder(1, "a process of another user").has_ended
    for text in ("", "4711", "x y", "\0\xff\n", "-1 no process", "9" * 500):
        (tmp_path / LOCK).write_text(text)
        assert holder_of(tmp_path / LOCK) == UNKNOWN, text
    (tmp_path / LOCK).write_text(f"{10**40} huge\n")
    assert holder_of(tmp_path / LOCK).has_ended
    (tmp_path / LOCK).unlink()
    assert holder_of(tmp_path / LOCK) == UNKNOWN
    assert UNKNOWN.has_ended


def test_a_folder_on_a_network_file_system_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts, share = tmp_path / "mounts", tmp_path / "my share"
    share.mkdir()
    said = str(share).replace(" ", "\\040")
    mounts.write_text(f"overlay / overlay rw 0 0\nserver:/x {said} nfs4 rw,relatime 0 0\n")
    monkeypatch.setattr(folder, "MOUNTS", mounts)
    with pytest.raises(ConfigError, match=r"is on a network file system \(nfs4\), where locks"):
        JobFolder(share / "keep")
    JobFolder(tmp_path / "keep").close()


def test_the_file_systems_of_this_machine_are_known() -> None:
    assert folder._mounts().items() >= {(each.mountpoint, each.fstype) for each in psutil.disk_partitions(all=True)}


@pytest.mark.parametrize("name", ["..", "a/b", ".part-1", "ä b", "%41", "-"])
def test_printable_job_names_stay_distinct(tmp_path: Path, name: str) -> None:
    folder = JobFolder(tmp_path / "keep")
    folder.create(replace(TERMS, name=name)).close()
    folder.create(replace(TERMS, name="A")).close()
    found = [each.terms.name for _, each in read_jobs(folder.path) if isinstance(each, JobSummary)]
    assert sorted(found) == sorted([name, "A"])
    folder.close()


@pytest.mark.parametrize("name", ["", "a\nb", "a\0", "x" * 121])
def test_job_names_that_are_empty_unprintable_or_too_long_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="name of a job"):
        check_job_name(name)


def test_a_job_that_was_half_made_at_a_power_failure_is_not_listed_and_is_deleted(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "keep")
    folder.create(TERMS).close()
    left = folder.path / "alice" / ".part-12"
    left.mkdir()
    (left / DATABASE).touch()
    folder.close()
    assert len(list(read_jobs(folder.path))) == 1
    folder = JobFolder(tmp_path / "keep")
    while folder.delete_some():
        pass
    assert not left.exists()
    folder.close()


def test_a_damaged_job_is_reported_and_other_jobs_are_read(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "keep")
    folder.create(TERMS).close()
    folder.create(replace(TERMS, name="other")).close()
    (folder.place_of("alice", "prices") / DATABASE).write_bytes(b"rubbish" * 1000)
    found = {place.name: each for place, each in read_jobs(folder.path)}
    assert isinstance(found["other"], JobSummary)
    assert "file is not a database" in str(found["prices"])
    folder.close()


def test_a_job_whose_record_nests_too_deeply_is_reported_and_other_jobs_are_read(tmp_path: Path) -> None:
    jobs = JobFolder(tmp_path / "jobs")
    for name in ("good", "deep"):
        record = jobs.create(replace(TERMS, name=name))
        if name == "deep":
            record.begin()
            record._facts.set("damaged", "[" * 100_000)
            record.commit()
        jobs.shut(record)
    jobs.close()
    found = {place.name: type(each) for place, each in read_jobs(jobs.path)}
    assert found == {"good": JobSummary, "deep": RecursionError}


def test_a_job_has_expired_when_it_has_not_changed_for_its_time(tmp_path: Path) -> None:
    record = JobRecord.create(tmp_path / "job", replace(TERMS, created=1.0))
    old = replace(record.summary(), is_sealed=True)
    assert not is_expired(old)  # it runs
    assert not is_expired(replace(old, state="done", changed=0.0)), "the time of its last change is damaged"
    assert is_expired(replace(old, is_sealed=False))  # its program has died: it never resumes by itself
    assert is_expired(replace(old, state="done"))
    assert is_expired(replace(old, terms=replace(TERMS, is_attended=True)))
    assert not is_expired(replace(old, state="done", changed=time.time()))
    record.close()


def test_a_transferred_job_belongs_to_the_owner_of_its_folder(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "jobs")
    record = folder.create(TERMS)
    given = folder.give(record, "eve n")
    assert (given.terms.owner, given.terms.name, given.state) == ("eve n", TERMS.name, OPEN)
    [(place, found)] = read_jobs(folder.path)
    assert place == folder.place_of("eve n", TERMS.name)
    assert isinstance(found, JobSummary)
    assert found.terms == replace(TERMS, owner="eve n")
    again = folder.open(place)
    assert again.terms.owner == "eve n"
    folder.create(TERMS)
    with pytest.raises(ConfigError, match=f"{TERMS.owner} has a job '{TERMS.name}' already"):
        folder.give(again, TERMS.owner)
    folder.close()


def test_a_folder_of_jobs_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigError, match=r"jobs cannot be kept in .*keep: .*; name a folder on a disk of this machine"
    ):
        JobFolder(tmp_path / "file" / "keep")


def test_programs_that_create_one_job_at_once_share_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (JobFolder(tmp_path / "keep", is_shared=True) for _ in range(2))
    make = JobRecord.make

    def make_and_be_late(place: Path, terms: JobTerms) -> Path:
        part = make(place, terms)
        monkeypatch.setattr(JobRecord, "make", make)
        second.shut(second.create(replace(TERMS, prefix=b"87654321")))
        return part

    monkeypatch.setattr(JobRecord, "make", make_and_be_late)
    record = first.create(TERMS)
    assert record.record_id == b"87654321"
    assert [path.name for path in (tmp_path / "keep" / "alice").iterdir()] == ["prices"]
    first.close()
    second.close()


def test_many_processes_that_create_one_job_at_once_find_one_record(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from scaler.jobs.folder import JobFolder, JobInUseError
from scaler.jobs.record import JobTerms

sys.stdin.readline()
folder = JobFolder(Path(sys.argv[1]), is_shared=True)
try:
    record = folder.create(JobTerms("prices", "alice", sys.argv[2].encode(), b"f" * 16, "f"))
except JobInUseError:
    record = folder.read(folder.place_of("alice", "prices"))
print(record.record_id.decode())
folder.close()
"""
    words = [[sys.executable, "-c", program, str(tmp_path / "keep"), f"{number:08}"] for number in range(5)]
    programs = [subprocess.Popen(each, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for each in words]
    for each in programs:
        each.stdin.write("go\n")
        each.stdin.flush()
    found = [each.communicate(timeout=60)[0].strip() for each in programs]
    assert [each.returncode for each in programs] == [0] * 5
    assert len(set(found)) == 1


def test_a_shared_folder_finds_another_owner_with_a_job_of_the_same_name(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path / "keep", is_shared=True)
    assert folder.other_owner("bob", "prices") is None
    folder.create(TERMS)
    assert folder.other_owner("bob", "prices") == "alice"
    assert folder.other_owner("alice", "prices") is None
    assert folder.other_owner("bob", "other") is None
    folder.create(replace(TERMS, owner="bob"))
    assert folder.other_owner("bob", "prices") is None
    folder.close()
    alone = JobFolder(tmp_path / "keep")
    assert alone.other_owner("carl", "prices") is None
    alone.close()


@pytest.mark.parametrize(("kind", "is_shared"), [("tmpfs", False), ("ramfs", True), ("ext4", False)])
def test_a_folder_of_jobs_in_memory_causes_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str, is_shared: bool
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"overlay / overlay rw 0 0\nx {tmp_path} {kind} rw 0 0\n")
    monkeypatch.setattr(folder, "MOUNTS", mounts)
    keep = JobFolder(tmp_path / "keep", is_shared)
    for name in ("a", "b"):
        keep.create(replace(TERMS, name=name)).close()
    keep.close()
    said = [
        each.message
        for each in caplog.records
        if "is in memory: a restart of this machine loses all jobs" in each.message
    ]
    assert len(said) == (kind != "ext4")


def test_the_folder_of_a_job_without_a_database_is_reported(tmp_path: Path) -> None:
    keep = JobFolder(tmp_path / "keep")
    keep.create(TERMS).close()
    keep.create(replace(TERMS, name="other")).close()
    (keep.place_of("alice", "prices") / DATABASE).unlink()
    found = {place.name: each for place, each in read_jobs(keep.path)}
    assert "holds no job: it has no file job.sqlite" in str(found["prices"])
    assert isinstance(found["other"], JobSummary)
    keep.close()


@pytest.mark.parametrize("umask", [0, 0o777])
def test_folders_are_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        keep = JobFolder(tmp_path / "keep", is_shared=True)
        keep.create(TERMS)
        keep.close()
    finally:
        os.umask(before)
    for path in [tmp_path / "keep", *(tmp_path / "keep").rglob("*")]:
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_the_lock_of_a_job_that_was_replaced_meanwhile_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = JobFolder(tmp_path / "keep", is_shared=True)
    keep.shut(keep.create(TERMS))
    place, flock = keep.place_of("alice", "prices"), fcntl.flock

    def flock_too_late(descriptor: int, kind: int) -> None:
        (place / "lock").unlink()
        (place / "lock").touch()
        flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", flock_too_late)
    with pytest.raises(JobInUseError, match="has it open"):
        keep.open(place)
    keep.close()


@pytest.mark.parametrize("is_shared", [False, True])
def test_files_of_a_removed_job_are_deleted_in_small_steps(
    is_shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "REMOVAL_SECONDS", 0.0)
    jobs = JobFolder(tmp_path / "keep", is_shared=is_shared)
    record = jobs.create(TERMS)
    for number in range(5):
        (record.folder / "values").mkdir(exist_ok=True)
        (record.folder / "values" / f"row-{number}").touch()
    jobs.remove(record)
    assert list(read_jobs(jobs.path)) == []
    steps = 0
    while jobs.delete_some():
        steps += 1
    assert steps >= 5
    assert list((jobs.path / "alice").iterdir()) == []
    record = jobs.create(TERMS)
    jobs.remove(record)
    jobs.close()
    assert len(list((jobs.path / "alice").iterdir())) == (0 if is_shared else 1), "the next start deletes it"
