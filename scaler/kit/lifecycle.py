"""Mail about the life of actors. It is sent in the urgent lane, ahead of all other mail.

Sent by the dispatcher when an actor fails or stops, and received by that actor's parent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scaler.message import message

if TYPE_CHECKING:
    from scaler.kit.actor import ActorRef


@message
class ChildFailed:
    """A child raised. It handles no mail until its parent decides."""

    child: ActorRef
    error: BaseException


@message
class ChildStopped:
    """A supervised child ended in order."""

    child: ActorRef


@message
class MessageRefused:
    """Notifies a sender that a shared actor could not handle its message, and has dropped it."""

    message: Any
    error: Exception


class ExplainedError(RuntimeError):
    """An actor cannot continue, through no fault of its code. The error's text is enough, so no traceback is logged."""


class UnknownMessageError(TypeError):
    """An actor received a message it has no handler for: a bug of the sender, and a failure of the receiver."""


class ActorStoppedError(RuntimeError):
    """An actor or a dispatcher was used after its end."""
