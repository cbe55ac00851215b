"""GraphValues: the values that the nodes of a graph need, for as long as they need them.

Owned by its graph; sends to the object store. A small result becomes a part of the arguments of its consumers, as
bytes. A large result, or an object among the arguments, is kept at the object store while a node needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scaler.actors.graphs.graph_node import GraphNodeState, preferred_worker, worth_storing
from scaler.actors.messages.objects import CountArguments, ReleaseObjects, StoreObject, UseObjects
from scaler.actors.messages.tasks import KeepResult
from scaler.actors.objects.located import LocatedFrames
from scaler.actors.vocabulary.owners import Owner
from scaler.ids import ClientId, ObjectId
from scaler.kit import ActorRef
from scaler.pickling.serialization import OBJECT, VALUE, WORTH_AN_OBJECT_BYTES, Frames, put_results, size_of
from scaler.wire.messages.columns import ROWS_BYTES_MOST
from scaler.wire.messages.common import TaskStatus

WORTH_A_PLACE_BYTES = 1024 * 1024
"""Size of results from which the consumers run where the result was made, if that worker has capacity."""

TAKEN = "another client has an object with the id of this task"
"""Why a result is not kept for the nodes that need it: they would get that object."""

_SUCCESS = TaskStatus.SUCCESS


class GraphValues:
    """The values of one graph.

    Args:
        nodes: the nodes of the graph; the list grows while nodes arrive.
        maker_of: returns the client that submitted the task whose result an object is.
    """

    def __init__(
        self,
        nodes: Sequence[GraphNodeState],
        object_store: ActorRef,
        owner: Owner,
        client_id: ClientId,
        maker_of: Callable[[ObjectId], ClientId | None],
    ) -> None:
        self._nodes = nodes
        self._owner, self._client_id, self._maker_of = owner, client_id, maker_of
        self._object_store = object_store
        self.graph: ActorRef | None = None
        self._has_large = False
        """whether any result was large enough to become an object because of who needs it"""

    def hold_arguments(self, node: GraphNodeState) -> None:
        """Keep the objects among a node's arguments until the node has ended."""
        if node.object_ids:
            self._object_store.send(UseObjects(node.object_ids))
        if node.frames:
            self._object_store.send(CountArguments(size_of(node.frames), self._owner))

    def take_frames(self, node: GraphNodeState) -> Frames:
        """Take the frames of a node's arguments: its task has them from now on, or nobody needs them."""
        frames, node.frames = node.frames, ()
        if frames:
            self._object_store.send(CountArguments(-size_of(frames), self._owner))
        return frames

    def hold_stored(self, node: GraphNodeState) -> None:
        """Mark the result of a node as stored, and keep it while nodes need it."""
        node.is_stored = True
        self._object_store.send(UseObjects(ObjectId(node.task_id), self.graph))

    def keep(self, node: GraphNodeState, frames: Frames, worker: ActorRef | None) -> None:
        """Keep a large result for its consumers. Raises `ValueError` if another client has an object with its id."""
        self._store(node, frames)
        if worker is not None:
            if type(frames) is not LocatedFrames:
                worker.send(KeepResult(ObjectId(node.task_id)))
            if node.size >= WORTH_A_PLACE_BYTES:
                node.made_by = worker

    def note_size(self, payload: bytes) -> None:
        """A small result may be too large to be copied for each consumer."""
        if len(payload) >= WORTH_AN_OBJECT_BYTES:
            self._has_large = True

    def arguments(self, node: GraphNodeState) -> tuple[bytes, bytes, ActorRef | None]:
        """Return the arguments of a node with the results that it needs, its objects, and where it should run.

        Raises:
            ValueError: if the arguments are invalid, or need a result whose id is that of another client's object.
        """
        if self._has_large:
            for value in worth_storing(self._nodes, node):
                self._store(value, (value.payload,))
        block, more_ids = put_results(node.block, self._result)
        if len(node.object_ids) + len(more_ids) > ROWS_BYTES_MOST:
            raise ValueError("the arguments name too many objects")
        near_worker = preferred_worker(self._nodes, node) if more_ids else None
        return block, node.object_ids + more_ids, near_worker

    def _result(self, position: int) -> tuple[int, bytes]:
        node = self._nodes[position] if position < len(self._nodes) else None
        if node is None or node.status != _SUCCESS:
            raise ValueError(f"the arguments name node {position}, which is not among the dependencies")
        return (OBJECT, node.task_id) if node.is_stored else (VALUE, node.payload)

    def _store(self, node: GraphNodeState, frames: Frames) -> None:
        """Keep a result as an object for its consumers. It belongs to no client and is deleted with their end."""
        if self._maker_of(ObjectId(node.task_id)) not in (None, self._client_id):
            raise ValueError(TAKEN)
        self._object_store.send(
            StoreObject(
                ObjectId(node.task_id),
                None,
                "",
                frames,
                False,
                payer=self._owner,
                function_id=node.function_id,
                graph_client=self._client_id,
            )
        )
        self.hold_stored(node)

    def drop(self, node: GraphNodeState) -> None:
        """A node has ended: drop what no other one needs. A small wanted result stays: it may be said again."""
        if node.object_ids:
            self._object_store.send(ReleaseObjects(node.object_ids))
            node.object_ids = b""
        if node.needed_by:
            return
        if node.is_stored:
            node.is_stored, node.made_by = False, None
            self._object_store.send(ReleaseObjects(ObjectId(node.task_id), self.graph))
        if not node.wanted:
            node.payload = b""

    def release_all(self) -> None:
        """Release all values after the graph has failed."""
        for node in self._nodes:
            self.take_frames(node)
            if node.is_stored:
                self._object_store.send(ReleaseObjects(ObjectId(node.task_id), self.graph))
            if node.object_ids:
                self._object_store.send(ReleaseObjects(node.object_ids))
