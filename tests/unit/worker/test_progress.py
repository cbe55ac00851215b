"""Progress page: what one mapping writes, the other one sees."""

from __future__ import annotations

import os

from scaler.worker.progress import Progress, new_progress_page


def test_both_ends_see_the_same_words() -> None:
    page = new_progress_page()
    agent, processor = Progress(page), Progress(page)
    os.close(page)
    assert (agent.executing, agent.withheld_to) == (0, 0)
    processor.words[0] = 2**40
    assert agent.executing == 2**40
    agent.withhold(after=3, to=7)
    assert list(processor.words[1:3]) == [3, 7]
    assert agent.withheld_to == 7
