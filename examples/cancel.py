"""Cancel: a running task is interrupted and cleans up, and its process continues. A limit ends long tasks."""

import os
import tempfile
import time
from pathlib import Path

from scaler import Client, SchedulerClusterCombo


def work(folder: str) -> None:
    """Work for ever, with a file that must be removed at the end."""
    path = Path(folder, f"work-{os.getpid()}")
    path.touch()
    try:
        while True:
            time.sleep(1)
    finally:  # runs also when the task is cancelled
        path.unlink()


def wait_for_files(folder: str, number: int) -> None:
    """Wait until the folder has `number` files."""
    while len(list(Path(folder).iterdir())) != number:
        time.sleep(0.01)


def main() -> None:
    """Cancel a waiting and a running task; let a third one reach the time limit."""
    with (
        tempfile.TemporaryDirectory() as folder,
        SchedulerClusterCombo(n_workers=1, task_timeout_seconds=1, logging_level="WARNING") as cluster,
        Client(cluster.get_address()) as client,
    ):
        process = client.submit(os.getpid).result()

        running, waiting = client.submit(work, folder), client.submit(work, folder)
        wait_for_files(folder, 1)
        print("the waiting task is cancelled:", waiting.cancel())
        print("the running task is cancelled:", running.cancel())
        wait_for_files(folder, 0)
        print("it has cleaned up, and its process continues:", client.submit(os.getpid).result() == process)

        endless = client.submit(work, folder)
        error = endless.exception()
        print(f"{type(error).__name__}: {error}")
        print("it has cleaned up, too:", not list(Path(folder).iterdir()))


if __name__ == "__main__":
    main()
