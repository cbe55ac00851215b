"""Progress pages for tests without processes."""

from __future__ import annotations

import os

from scaler.processor.progress_page import ProgressPage, new_progress_page


def new_page() -> ProgressPage:
    """Return a page that is freed with its last reference."""
    descriptor = new_progress_page()
    try:
        return ProgressPage(descriptor)
    finally:
        os.close(descriptor)
