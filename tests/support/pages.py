"""Progress pages for tests without processes."""

from __future__ import annotations

import os

from scaler.processor.progress_page import Progress, new_progress_page


def new_page() -> Progress:
    """A page that is gone with the last one who knows it."""
    descriptor = new_progress_page()
    try:
        return Progress(descriptor)
    finally:
        os.close(descriptor)
