"""PageProcess: the page in the browser, as a child process of the user's program."""

from __future__ import annotations

from scaler.cluster.child_process import ChildProcess
from scaler.endpoint import Endpoint
from scaler.settings import UiConfig


class PageProcess(ChildProcess):
    """A page on a free port of this machine, for the scheduler or the monitor stream at `endpoint`.

    Raises:
        StartError: if the process of the page does not start.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__("scaler_ui")
        self.launch()
        key_file = endpoint.key_file or None
        self.configure(UiConfig(endpoint.address, port=0, key_file=key_file, trust_users=endpoint.trust_users))
        self.url: str = self.wait_ready()
        """the URL of the page, with the token for the first visit"""
