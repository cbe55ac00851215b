from __future__ import annotations

import pytest

from scaler.cli.scale import main


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--max", "2"), "required: --up"),
        (("--max", "0", "--up", "x"), "'0' is not a whole number between 1 and"),
        (("--max", "2", "--min", "3", "--up", "x"), "--min 3 is more than --max 2"),
        (("--max", "2", "--each", "3", "--up", "x"), "more than --max 2"),
        (("--max", "2", "--up", "x {oops}"), "may contain {address}, {names}, {n}"),
        (("--max", "2", "--down-idle", "0", "--up", "x"), "'0' is not a number of seconds"),
    ],
)
def test_bad_options_are_refused_in_one_sentence(
    options: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["tcp://127.0.0.1:1", *options])
    assert ended.value.code == 2
    assert why in capsys.readouterr().err
