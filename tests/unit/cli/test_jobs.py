"""scaler_jobs --file: a folder of jobs, without a scheduler."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scaler.cli import jobs
from scaler.cli.jobs import main
from scaler.jobs.folder import JobFolder
from scaler.jobs.record import DATABASE, VALUES, JobTerms, RowResult
from scaler.jobs.value_files import IN_DATABASE_BYTES
from scaler.jobs.values import pack_rows
from tests.support.processes import free_address

TERMS = JobTerms("prices", "alice", b"12345678", b"f" * 16, "price")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    keep = JobFolder(tmp_path / "keep")
    record = keep.create(TERMS)
    record.begin()
    record.add_range(0, 2, b"", bytes(16), pack_rows([b"0", b"1"]))
    record.add_results([RowResult(0, 0, (bytes(IN_DATABASE_BYTES + 1),)), RowResult(1, 0, (b"1",))])
    record.commit()
    record.close()
    keep.create(replace(TERMS, name="other")).close()
    keep.close()
    return keep.path


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[object, str]:
    with pytest.raises(SystemExit) as end:
        main([str(each) for each in words])
    return end.value.code, capsys.readouterr().out


def test_check_reads_all_jobs_of_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--file", folder, "check") == (0, "2 jobs, no problems; nothing was changed\n")


def test_check_names_a_damaged_value_and_a_job_without_a_database(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = folder / "alice" / "prices"
    (place / VALUES / "row-0").write_bytes(b"x" * (IN_DATABASE_BYTES + 1))
    (folder / "alice" / "other" / DATABASE).unlink()
    code, printed = run(capsys, "--file", folder, "check")
    assert code == 1
    assert f"{place}: values/row-0: its checksum does not match" in printed
    assert f"{folder / 'alice' / 'other'}: it cannot be read: " in printed
    assert "it has no file job.sqlite" in printed
    assert "2 jobs, 2 problems" in printed


def test_give_transfers_a_job_in_a_folder_without_a_scheduler(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--file", folder, "give", "alice/prices", "bob") == (0, "prices: transferred to bob\n")
    assert (folder / "bob" / "prices" / DATABASE).is_file()
    assert not (folder / "alice" / "prices").exists()
    keep = JobFolder(folder)
    assert "another scheduler keeps its jobs" in str(run(capsys, "--file", folder, "give", "bob/prices", "eve")[0])
    keep.close()
    for name, why in (("prices", "name the owner, too: OWNER/NAME"), ("eve/x", "there is no job 'x' of eve")):
        assert why in str(run(capsys, "--file", folder, "give", name, "bob")[0])
    run(capsys, "--file", folder, "give", "alice/other", "bob")
    assert "bob has a job 'prices' already" in str(run(capsys, "--file", folder, "give", "bob/prices", "bob")[0])


def test_commands_that_need_a_scheduler_are_refused_for_a_folder(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--file", str(folder), "show", "prices"])
    assert "show needs a scheduler: name its address before it" in capsys.readouterr().err
    assert run(capsys, "--file", folder, "tcp://127.0.0.1:1", "list")[0] == 2
    assert not (folder.parent / "nowhere").exists()
    assert run(capsys, "--file", folder.parent / "nowhere", "give", "a/b", "c")[0] != 0
    assert not (folder.parent / "nowhere").exists(), "nothing is made"


def test_an_address_without_a_command_lists_its_jobs_or_reports_that_no_scheduler_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "NO_SCHEDULER_SECONDS", 0.2)
    address = free_address()
    (code, _), listed = run(capsys, address), run(capsys, address, "list")[0]
    assert code == listed
    assert f"no scheduler answered at {address}" in str(code)


def test_a_folder_without_a_command_lists_its_jobs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = run(capsys, "--file", folder, "list")
    assert run(capsys, "--file", folder) == listed
    assert [line.split()[0] for line in listed[1].splitlines()] == ["JOB", "other", "prices"]


ADDRESS = "tcp://127.0.0.1:1"


@pytest.mark.parametrize(
    "words",
    [
        ["--key-file", "f", ADDRESS, "results", "prices", "--start", "7"],
        [ADDRESS, "--key-file=f", "results", "--start", "7", "prices"],
        [ADDRESS, "results", "prices", "--start=7", "--key-file", "f"],
    ],
)
def test_options_may_be_anywhere_on_the_command_line(words: list[str]) -> None:
    found = jobs.read_arguments(jobs.make_parser(), words)
    assert (found.address, found.command, found.name, found.start, found.key_file) == (
        ADDRESS, "results", "prices", 7, "f",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "name the address of a scheduler, or a folder with --file"),
        (["list"], "list needs a scheduler: name its address before it, or a folder with --file"),
        (["export", "a", "b.csv"], "export needs a scheduler: name its address before it"),
        ([ADDRESS, "check"], "check reads the files: name their folder with --file"),
        ([ADDRESS, "show"], "write show NAME, not show"),
        ([ADDRESS, "list", "prices"], "write list, not list prices"),
        ([ADDRESS, "give", "prices"], "write give NAME OWNER, not give prices"),
        ([ADDRESS, "list", "--force"], "--force is an option of export, not of list"),
        ([ADDRESS, "wait", "prices", "--start", "5"], "--start is an option of results, not of wait"),
        (
            [ADDRESS, "results", "prices", "--start", "-5"],
            "--start: the number of a row is 0 or greater, not '-5'",
        ),
        ([ADDRESS, "export", "a", "b", "--format", "cvs"], "did you mean 'csv'?"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(sentence)
