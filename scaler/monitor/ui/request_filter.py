"""RequestFilter: accepts requests of browsers and programs that know the token, and refuses all others.

The token is in a file that only its user can read, and in the URL that `scaler_ui` prints. The page sends the token as
the first message of each connection; programs send it as a bearer token.

The cookie of the page is not the token, because browsers send cookies to all ports of a host. It only gives access to
the files of the page, which contain no data. Host and Origin are checked, to refuse requests of other pages.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import os
import secrets
import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from scaler.config import ConfigError
from scaler.keys.private_files import new_private_folder, read_private, write_private

TOKEN_BYTES = 24
_TOKEN_CHARACTERS = range(16, 257)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def token_file(port: int) -> Path:
    """Return the token file of a port; its path stays the same, so that browsers keep access after a restart.

    Raises:
        ConfigError: if this user has no home folder.
    """
    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    except RuntimeError:
        raise ConfigError(
            "this user has no home folder for the token: name a file with --token-file, or set XDG_STATE_HOME"
        ) from None
    return state / "scaler" / f"ui-{port}.token"


def read_or_make_token(file: Path) -> str:
    """Return the token in a file; create the file if it does not exist.

    Raises:
        ConfigError: if the file cannot be used, or other users may read it.
    """
    try:
        with contextlib.suppress(FileExistsError):
            new_private_folder(file.parent)
        if not file.exists():
            with contextlib.suppress(FileExistsError):  # it is a link, or another one was faster
                write_private(file, f"{secrets.token_urlsafe(TOKEN_BYTES)}\n", is_new=True)
    except OSError as error:
        raise ConfigError(f"cannot store the token in {file}: {error.strerror or error}") from None
    token = read_private(file).strip()
    if len(token) not in _TOKEN_CHARACTERS or not token.isascii() or not token.isprintable():
        raise ConfigError(f"{file} has no token of 16 to 256 characters: remove that file, and a new one is created")
    return token


class RequestFilter:
    """Checks the token, and the host names under which browsers may request the page.

    Args:
        host: the host name or address at which the server listens.
        names: further host names, for instance of a proxy in front of the server.
    """

    def __init__(self, token: str, host: str, names: Collection[str] = ()) -> None:
        self._token = token.encode()
        self.cookie = hmac.new(self._token, b"files of the page", "sha256").hexdigest()
        """the value of the cookie that gives access to the files of the page"""
        self._proxies = {name.casefold() for name in names}
        ours = (*LOOPBACK, host, socket.gethostname(), socket.getfqdn())
        self._names = {name.casefold() for name in ours} | self._proxies

    def is_for_us(self, host: str, origin: str | None) -> bool:
        """Return whether the headers `Host` and, if present, `Origin` of a request name this server.

        This prevents DNS rebinding, in which a foreign page uses its own host name for the address of this server.
        """
        name = _name(f"//{host}")
        if not name or not (name in self._names or _is_number(name)):
            return False
        if origin is None:
            return True
        # A proxy in front may use another host name than the browser.
        return origin.partition("://")[2].casefold() == host.casefold() or _name(origin) in self._proxies

    def knows(self, token: str | None) -> bool:
        """Return whether `token` is the token of this server."""
        return token is not None and hmac.compare_digest(token.encode("utf-8", "replace"), self._token)

    def has_cookie(self, value: str | None) -> bool:
        """Return whether `value` is the value of the cookie of this server."""
        return value is not None and hmac.compare_digest(value.encode("utf-8", "replace"), self.cookie.encode())

    def has_bearer(self, authorization: str | None) -> bool:
        """Return whether an `Authorization` header contains the token: `Bearer TOKEN`."""
        kind, _, token = (authorization or "").partition(" ")
        return kind.casefold() == "bearer" and self.knows(token.strip())


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").casefold()
    except ValueError:
        return ""


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
