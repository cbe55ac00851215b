"""A cluster outlives its clients: open tasks of a client that disconnects are cancelled, and the next one connects."""

import math
import time

from scaler import Client, SchedulerClusterCombo


def main() -> None:
    """Work with two clients, one after the other, on one cluster."""
    # This cluster lives longer than one client, like the commands scaler_scheduler and scaler_cluster.
    with SchedulerClusterCombo(n_workers=2, logging_level="WARNING") as cluster:
        address = cluster.get_address()

        first = Client(address)
        print("first client: 20! =", first.submit(math.factorial, 20).result())
        unfinished = first.submit(time.sleep, 3600)
        first.disconnect()  # as at the end of a `with Client(address)` block; a second call has no effect
        print("first client left; its unfinished task was cancelled:", unfinished.cancelled())

        with Client(address) as second:
            print("second client: 21! =", second.submit(math.factorial, 21).result())


if __name__ == "__main__":
    main()
