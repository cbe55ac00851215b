"""Summary: how it stands with some tasks at one moment, and the line that says so."""

from __future__ import annotations

from dataclasses import dataclass

BAR_WIDTH = 20


@dataclass(frozen=True)
class Summary:
    """How it stands.

    Attributes:
        done: how many have ended, the failed ones too.
        total: how many there are, or None if that is unknown.
        rate: how many end in a second.
        concern: why nothing goes on, or how far the oldest task is, or an empty text.
    """

    done: int
    total: int | None
    failed: int
    elapsed_seconds: float
    rate: float
    concern: str = ""

    @property
    def notes(self) -> list[str]:
        """What else there is to say."""
        failed = [f"{self.failed:,} failed"] if self.failed else []
        return [*failed, self.concern] if self.concern else failed

    def line(self) -> str:
        """Return all of it as one line."""
        parts = [f"{clock(self.elapsed_seconds)} elapsed", f"{_shown(self.rate)} tasks/s"]
        if self.total is not None and self.rate and self.done < self.total:
            parts.append(f"{clock((self.total - self.done) / self.rate)} left")
        return f"{self._counted()}  {', '.join([*parts, *self.notes])}"

    def _counted(self) -> str:
        if self.total is None:
            return f"{self.done:,} tasks"
        share = self.done / self.total if self.total else 1.0
        filled = int(share * BAR_WIDTH)
        return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {self.done:,}/{self.total:,} {int(share * 100):3}%"


def _shown(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def clock(seconds: float) -> str:
    """Return a time as hours, minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
