"""Further mutants, chosen by somebody else than the author of the simulation."""

from __future__ import annotations

from tests.simulation.mutants import Mutant

FURTHER: tuple[Mutant, ...] = ()
