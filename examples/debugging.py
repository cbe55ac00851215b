"""Debugging: scheduler, workers and tasks run in threads of this program, so that one debugger sees all of them."""

import os
import sys
import threading

from scaler import Client


def share(client: Client, numbers: list[int]) -> float:
    """Return the first number as a part of the sum; another task computes the sum."""
    if "--debug" in sys.argv:
        breakpoint()  # noqa: T100 - look at values with `p numbers`, continue with `c`
    return numbers[0] / client.submit(sum, numbers).result()


def where() -> tuple[int, str]:
    """Return the id of the process and the name of the thread."""
    return os.getpid(), threading.current_thread().name


def main() -> None:
    """Run a task and its child in this process."""
    with Client(processes=False) as client:
        print(f"the first number is {client.submit(share, client, [1, 2, 5]).result():.1%} of the sum")
        process, thread = client.submit(where).result()
    print(f"tasks ran in this process ({process == os.getpid()}), in threads such as {thread.rpartition('-')[0]}-*")


if __name__ == "__main__":
    main()
