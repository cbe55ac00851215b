"""TokenForm: the answer to a browser that has no token: a page without scripts in which the user types the token."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from urllib.parse import quote

from aiohttp import web

from scaler.monitor.ui.request_filter import HEADERS

ADVICE = (
    "Open the whole address that scaler_ui printed at its start, with ?token=... at its end. This browser then "
    "remembers it."
)
_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/24px system-ui,sans-serif;max-width:40rem;margin:15vh auto;"
    "padding:0 16px}input,button{font:inherit;padding:8px;height:44px;box-sizing:border-box}"
    "input{width:min(24rem,100%)}"
)
_PAGE = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Token of Scaler</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>Scaler</h1>
<p role="status">TEXT</p>
<form method="post" action="./" autocomplete="off">
<p><label for="token">Token</label></p>
<p><input id="token" name="token" type="password" required autofocus> <button>Open the page</button></p>
</form>
<p>{ADVICE} Or type the token, which is the last part of that address, and also in the file that scaler_ui named.</p>
</main>
</body>
</html>
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
FORM_HEADERS: Mapping[str, str] = {
    **HEADERS,
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    # With `no-referrer`, a browser sends `Origin: null` with the form, and the request filter would refuse it.
    "Referrer-Policy": "same-origin",
}


def token_form(is_wrong: bool = False) -> web.Response:
    """Return the page with the form."""
    text = "This is not the token of this server." if is_wrong else "This page needs the token of the server."
    return web.Response(status=403, text=_PAGE.replace("TEXT", text, 1), content_type="text/html", headers=FORM_HEADERS)


def accepted(token: str) -> web.Response:
    """Return the redirect to the page; the token is behind `#`, which browsers send to no server."""
    return web.Response(status=303, headers={"Location": f"./#token={quote(token, safe='')}"})
