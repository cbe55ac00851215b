"""Shows the figures of storms as a table in Markdown, one row for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

HEAD = (
    "| scenario | faults | tasks | failed | executed again | of that without need | recovery s, median / longest "
    "| longest stall s | scheduler MiB, first / peak / last | missed |\n|---|---|---|---|---|---|---|---|---|---|"
)


def table(storms: Iterable[dict[str, Any]]) -> str:
    return "\n".join([HEAD, *(f"| {' | '.join(_cells(each))} |" for each in storms)])


def _cells(found: dict[str, Any]) -> list[str]:
    memory = found["scheduler_mib"]
    return [
        found["scenario"],
        ", ".join(f"{kind} {count}" for kind, count in found["faults"].items()) or "-",
        f"{found['tasks']:,}",
        str(found["failed"]),
        str(sum(found["executed_again"].values())),
        str(found["executed_again_without_need"]),
        "; ".join(f"{kind} {middle} / {most}" for kind, (middle, most) in found["recovery_seconds"].items()) or "-",
        str(found["longest_stall_seconds"]),
        f"{memory['first']:.0f} / {memory['peak']:.0f} / {memory['last']:.0f}" if memory else "-",
        "; ".join(found["missed"]) or "-",
    ]
