"""PageRequest: what a page requests: a name and a few arguments, all checked here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scaler.monitor.views.frames import ViewRequestError, number_argument, text_argument


class PageMissingError(ViewRequestError):
    """There is nothing at the address of a page: no such page, or an id that no subject can have."""


@dataclass(frozen=True)
class PageRequest:
    """A request of a page in the browser, as the page sent it."""

    number: int
    page: str
    arguments: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, message: dict[str, Any]) -> PageRequest:
        """Return the request in a message of a page. Raises `ViewRequestError` if the request is invalid."""
        number, page, arguments = message.get("wish"), message.get("page"), message.get("args", {})
        if not isinstance(number, int) or not isinstance(page, str) or not isinstance(arguments, dict):
            raise ViewRequestError("a request must have a number, a page and arguments")
        return cls(number, page, arguments)

    def text(self, name: str) -> str:
        """Return an argument that is a short text; empty if the argument is missing."""
        return text_argument(self.arguments, name)

    def number_of(self, name: str, default: int, least: int, most: int) -> int:
        """Return an argument that is a whole number, limited to `least` and `most`; `default` if it is missing."""
        return min(max(number_argument(self.arguments, name, default), least), most)

    @property
    def short_id(self) -> bytes:
        """The short id in the argument `id`."""
        try:
            return bytes.fromhex(self.text("id"))
        except ValueError:
            raise PageMissingError("This is not an id: ids have only the digits 0-9 and a-f.") from None


@dataclass
class SentState:
    """Describes the data that a page has already received, so that only new data is sent."""

    series_end: int = 0
    shape: object = None
    band_end: int = 0
