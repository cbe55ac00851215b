"""Progress in a real notebook kernel: one output of the cell, written anew."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.more, pytest.mark.foreign]

CODE = """\
import sys, time, logging
if {without_tqdm}:
    sys.modules["tqdm.auto"] = None
import scaler
client = scaler.Client(processes=False)
futures = [client.submit(time.sleep, 0.4) for _ in range(3)]
scaler.progress(futures)
client.map(abs, [(n,) for n in range(5)], progress=True)
client.disconnect()
None
"""


@pytest.mark.parametrize("without_tqdm", [True, False])
@pytest.mark.filterwarnings("ignore")  # those of the libraries of notebooks
def test_progress_is_one_output_of_the_cell(without_tqdm: bool) -> None:
    import nbclient
    import nbformat

    code = CODE.format(without_tqdm=without_tqdm)
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "here", "language": "python"}
    nbclient.NotebookClient(book, timeout=100, startup_timeout=100, resources={"metadata": {"path": "."}}).execute()
    outputs = book.cells[0].outputs
    if without_tqdm:
        texts = [output["data"]["text/plain"] for output in outputs if output.output_type == "display_data"]
        assert len(texts) == 2, outputs
        assert "3/3 100%" in texts[0]
        assert "5/5 100%" in texts[1]
    else:  # without its widgets tqdm writes a line again and again
        text = "".join(output.get("text", "") for output in outputs)
        assert "3/3" in text, outputs
        assert "5/5" in text
