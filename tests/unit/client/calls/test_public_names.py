from __future__ import annotations

import pytest

from scaler.client.calls.public_names import named_as


@named_as("Written")
class Base:
    limit = 3

    def look(self) -> Base:
        return self

    @property
    def name(self) -> str:
        return "as it was"


class Derived(Base):
    pass


def test_an_error_about_arguments_names_the_other_class() -> None:
    with pytest.raises(TypeError, match=r"^Written\.look\(\) takes 1 positional argument but 2 were given"):
        Derived().look(1)  # type: ignore[call-arg]


def test_nothing_else_changes() -> None:
    made = Derived()
    assert made.look() is made
    assert (made.limit, made.name, Base.__qualname__) == (3, "as it was", "Base")
