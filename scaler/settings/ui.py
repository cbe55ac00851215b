"""The settings of the page in the browser."""

from __future__ import annotations

from dataclasses import dataclass, field

from scaler.config import check_address, entry, setting
from scaler.settings.base import KEY_FILE, TRUST_USERS, Settings


@dataclass(frozen=True)
class UiConfig(Settings):
    """Settings of the server of the page."""

    TABLE = "ui"

    address: str = field(
        metadata=entry(
            "the monitor address that scaler_scheduler printed, or the address of the scheduler",
            "address",
            check=check_address,
            metavar="MONITOR_ADDRESS",
        )
    )
    host: str = setting(
        "127.0.0.1",
        "the host where browsers connect; 0.0.0.0: all networks, unencrypted, so put a proxy with TLS in front",
        "--host",
        metavar="HOST",
    )
    port: int = setting(50001, "the port where browsers connect; 0: any free port", "--port", least=0, most=65535)
    store: str | None = setting(
        None,
        "a file that keeps history, events and failures for a week, so that they outlive this server",
        "--store",
        metavar="FILE",
        default="in memory only",
    )
    metrics_only: bool = setting(False, "serve /metrics and /healthz, and no page", "--metrics-only")
    token_file: str | None = setting(
        None,
        "the file with the token that browsers need; created if it does not exist",
        "--token-file",
        metavar="FILE",
        default="~/.local/state/scaler/ui-PORT.token",
    )
    names: tuple[str, ...] = setting(
        (),
        "further host names under which browsers request the page, such as that of a proxy in front",
        "--names",
        metavar="NAME",
        default="none",
    )
    key_file: str | None = field(default=None, metadata=KEY_FILE)
    trust_users: tuple[int, ...] = field(default=(), metadata=TRUST_USERS)
