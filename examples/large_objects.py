"""Large values: how often they are sent, which of them tasks share, and when their memory is freed."""

from functools import partial

from scaler import Client, MissingObjects, SchedulerClusterCombo


def find(text: bytes, word: bytes) -> int:
    """Return how often a word is in the text."""
    return text.count(word)


def note(notes: list[int], number: int) -> int:
    """Append a number to the list, and return the new length."""
    notes.append(number)
    return len(notes)


def main() -> None:
    """Show each kind of large value once."""
    text = b"to be or not to be, " * 1_000_000

    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        # An argument belongs to its task, whatever its size. Any number of tasks can use an object.
        print("argument:", client.submit(find, text, b"be").result())
        reference = client.send_object(text, name="hamlet")
        print("object:  ", client.map(find, [(reference, word) for word in (b"to", b"be", b"or", b"not")]))

        # A function with the values that it contains is sent to each machine once, whatever its size.
        print("function:", client.map(partial(find, text), [(b"to",), (b"be",), (b"or",), (b"not",)]))

        # The scheduler keeps a large result until you read it, and deletes it when you drop the future.
        future = client.submit(bytes, 20_000_000)
        print("result:  ", len(future.result()), "bytes")

        # Each task has its own copy of small arguments and small objects, so no other task sees its changes.
        print("small:   ", [client.submit(note, client.send_object([1, 2, 3]), 4).result() for _ in range(3)])

        # A large object is read once in each worker's process and shared by the tasks there. Treat it as read-only!
        shared = client.send_object(list(range(10_000)))
        print("shared:  ", [client.submit(note, shared, 4).result() for _ in range(3)])

        # The object is deleted with its last reference. `clear` deletes objects also while references exist.
        client.clear()
        try:
            client.submit(find, reference, b"to")
        except MissingObjects as error:
            print("cleared: ", error)


if __name__ == "__main__":
    main()
