"""Series: values of the history over time, of which a page receives only those that it lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scaler.monitor.ui.feed import FeedState
from scaler.monitor.ui.views.page_request import PageRequest, SentState

POINTS = 300


def series(
    state: FeedState, request: PageRequest, sent: SentState, names: Sequence[str], seconds: int
) -> dict[str, Any]:
    """Return the values that a page lacks, of the `seconds` before the requested end or now. A new page lacks all."""
    end = request.number_of("end", 0, 0, 2**40) or None
    start, step, count = state.history.span(seconds, POINTS, end)
    shape = (step, count, end)
    is_known = sent.shape == shape and start <= sent.series_end
    last = start + step * count
    first = sent.series_end if is_known else start
    if is_known and last > first:
        first = max(start, first - step)  # further messages of that second may have arrived since
    sent.shape, sent.series_end = shape, last
    columns = state.history.read(names, first, step, (last - first) // step)
    return {"full": not is_known, "start": first, "step": step, "columns": columns}
