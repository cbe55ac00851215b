"""Large values: what is sent how often, what tasks share and what they do not, and when the memory is free again."""

from functools import partial

from scaler import Client, MissingObjects, SchedulerClusterCombo


def find(text: bytes, word: bytes) -> int:
    """Return how often a word is in the text."""
    return text.count(word)


def note(notes: list[int], number: int) -> int:
    """Write a number down, and return how many there are then."""
    notes.append(number)
    return len(notes)


def main() -> None:
    """Show each kind of large value once."""
    text = b"to be or not to be, " * 1_000_000

    with SchedulerClusterCombo(n_workers=1, logging_level="WARNING") as combo, Client(combo.get_address()) as client:
        # An argument belongs to its task, however large it is. An object is for any number of tasks.
        print("argument:", client.submit(find, text, b"be").result())
        reference = client.send_object(text, name="hamlet")
        print("object:  ", client.map(find, [(reference, word) for word in (b"to", b"be", b"or", b"not")]))

        # So is what a function carries with it: one of any size is sent to each machine once.
        print("function:", client.map(partial(find, text), [(b"to",), (b"be",), (b"or",), (b"not",)]))

        # A large result stays at the scheduler until you ask for it; if you drop the future, so does the scheduler.
        future = client.submit(bytes, 20_000_000)
        print("result:  ", len(future.result()), "bytes")

        # Small arguments and small objects are new for each task: what one task does to them, no other sees.
        print("small:   ", [client.submit(note, client.send_object([1, 2, 3]), 4).result() for _ in range(3)])

        # A large object is read once in each worker's process and shared by the tasks there. Treat it as read-only!
        shared = client.send_object(list(range(10_000)))
        print("shared:  ", [client.submit(note, shared, 4).result() for _ in range(3)])

        # When the last reference is gone, so is the object. After `clear`, a reference that you still have is useless.
        client.clear()
        try:
            client.submit(find, reference, b"to")
        except MissingObjects as error:
            print("cleared: ", error)


if __name__ == "__main__":
    main()
