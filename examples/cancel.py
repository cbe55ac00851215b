"""Cancel: a running task is interrupted, cleans up, and its process goes on; and no task runs longer than a limit."""

import os
import tempfile
import time
from pathlib import Path

from scaler import Client, SchedulerClusterCombo


def work(folder: str) -> None:
    """Work for ever, in a file that shall not be left behind."""
    path = Path(folder, f"work-{os.getpid()}")
    path.touch()
    try:
        while True:
            time.sleep(1)
    finally:  # runs when the task is cancelled, too
        path.unlink()


def wait_for_files(folder: str, number: int) -> None:
    """Wait until there are so many files."""
    while len(list(Path(folder).iterdir())) != number:
        time.sleep(0.01)


def main() -> None:
    """Cancel a task that waits and one that runs; let a third one run into the limit."""
    with (
        tempfile.TemporaryDirectory() as folder,
        SchedulerClusterCombo(n_workers=1, task_timeout_seconds=1, logging_level="WARNING") as cluster,
        Client(cluster.get_address()) as client,
    ):
        process = client.submit(os.getpid).result()

        running, waiting = client.submit(work, folder), client.submit(work, folder)
        wait_for_files(folder, 1)
        print("cancel the one that waits:", waiting.cancel())
        print("cancel the one that runs:", running.cancel())
        wait_for_files(folder, 0)
        print("it has cleaned up, and its process goes on:", client.submit(os.getpid).result() == process)

        endless = client.submit(work, folder)
        error = endless.exception()
        print(f"{type(error).__name__}: {error}")
        print("it has cleaned up, too:", not list(Path(folder).iterdir()))


if __name__ == "__main__":
    main()
