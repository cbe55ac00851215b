"""Progress page: one mapping reads what the other one writes."""

from __future__ import annotations

import os

from scaler.processor.progress_page import ProgressPage, new_progress_page
from tests.support.processes import held

PAGES = "descriptor of /memfd:scaler"


def test_both_ends_see_the_same_words() -> None:
    page = new_progress_page()
    agent, processor = ProgressPage(page), ProgressPage(page)
    os.close(page)
    assert (agent.executing, agent.withheld_to) == (0, 0)
    processor.words[0] = 2**40
    assert agent.executing == 2**40
    agent.withhold(after=3, to=7)
    assert list(processor.words[1:3]) == [3, 7]
    assert agent.withheld_to == 7
    agent.interrupt(5)
    assert processor.words[3] == 5
    assert agent.is_interrupt_due
    processor.words[3] = 0
    assert not agent.is_interrupt_due


def test_withheld_tasks_stay_withheld_until_they_are_passed() -> None:
    page = new_progress_page()
    progress = ProgressPage(page)
    os.close(page)
    progress.withhold(after=1, to=4)
    progress.withhold(after=2, to=6)  # the processor is at 2, and about to look whether it may start it
    assert list(progress.words[1:3]) == [1, 6]
    progress.withhold(after=7, to=9)
    assert list(progress.words[1:3]) == [7, 9]


def test_the_run_time_of_a_task_counts_from_its_start_while_it_is_executed() -> None:
    page = new_progress_page()
    progress = ProgressPage(page)
    os.close(page)
    assert progress.ran_seconds(0, now=5.0) == 0
    progress.words[4], progress.words[0] = 2_000_000_000, 7
    assert progress.ran_seconds(7, now=5.0) == 3
    assert progress.ran_seconds(6, now=5.0) == 0


def test_a_closed_page_holds_no_descriptor_and_keeps_its_last_words() -> None:
    page = new_progress_page()
    agent, processor = ProgressPage(page), ProgressPage(page)
    os.close(page)
    processor.words[0] = 7
    before = held()[PAGES]
    agent.close()
    agent.close()
    assert held()[PAGES] == before - 1
    assert agent.executing == 7
    agent.interrupt(7)
    assert agent.is_interrupt_due
    assert processor.words[3] == 0
    processor.close()
