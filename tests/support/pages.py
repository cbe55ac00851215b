"""Progress pages for tests without processes."""

from __future__ import annotations

import os

from scaler.processor.progress_page import ProgressPage, new_progress_page


def new_page() -> ProgressPage:
    """A page that is gone with the last one who knows it."""
    descriptor = new_progress_page()
    try:
        return ProgressPage(descriptor)
    finally:
        os.close(descriptor)
