"""A back-end for joblib, and so for scikit-learn: `register()`, then `joblib.parallel_backend("scaler")`.

Called by joblib, in any thread of the user; submits to a client. The back-end never ends a client that the user made.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from scaler.client.caller import ClientWithOptions
from scaler.client.calls.options import for_executor
from scaler.client.client import Client
from scaler.client.future import ScalerFuture
from scaler.client.insight.presence import SchedulerInfo
from scaler.integrations import with_cure

try:
    from joblib import register_parallel_backend
    from joblib.parallel import AutoBatchingMixin, ParallelBackendBase
except ImportError as error:
    raise with_cure(error, "joblib") from error

NAME = "scaler"


class _SubmittingClient(Protocol):
    def submit(self, fn: Callable[..., Any], /, *args: Any) -> ScalerFuture[Any]: ...

    def wait_for_workers(self, n_workers: int = 1) -> SchedulerInfo: ...


class ScalerBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]  # joblib has no types
    """Runs the batches of joblib as tasks.

    Args:
        client: submits the tasks; None: a client of this process, made when joblib first needs a client.
        options: the options of joblib's own back-ends.
    """

    default_n_jobs = -1
    supports_retrieve_callback = True
    uses_threads = False
    supports_sharedmem = False

    def __init__(self, client: _SubmittingClient | None = None, **options: Any) -> None:
        super().__init__(**options)
        if isinstance(client, ClientWithOptions):
            for_executor(client.task_options)
        self._client = client
        self._initializer_call: tuple[Any, ...] = ()
        """the id, initializer and arguments of this parallel call; each worker process calls the initializer once"""
        self._open: weakref.WeakSet[ScalerFuture[Any]] = weakref.WeakSet()

    @property
    def _own(self) -> _SubmittingClient:
        return self._client or _client_of(os.getpid())

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        """Prepare a parallel call. Of joblib's back-end options, only `initializer` and `initargs` are used."""
        options = {**getattr(self, "backend_kwargs", {}), **options}
        initializer = options.get("initializer")
        self._initializer_call = (
            () if initializer is None else (os.urandom(8), initializer, *options.get("initargs", ()))
        )
        n_batches: int = super().configure(n_jobs, parallel)
        return n_batches

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the number of batches that run at once: for -1 the number of workers, for -2 one less, and so on.

        Raises:
            ValueError: if `n_jobs` is 0.
        """
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            return 1
        if n_jobs > 0:
            return n_jobs
        return max(1, self._own.wait_for_workers(1).workers + 1 + n_jobs)

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None) -> ScalerFuture[Any]:
        """Submit a batch, and return its future."""
        future = self._own.submit(joblib_batch, func, *self._initializer_call)
        self._open.add(future)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    apply_async = submit
    """the method that joblib before 1.5 calls in place of `submit`"""

    def retrieve_result_callback(self, out: ScalerFuture[Any]) -> Any:
        """Return the result of a batch, or raise its exception."""
        return out.result()

    def terminate(self) -> None:
        """End a parallel call: reset the batch statistics, because they do not apply to the next parallel call."""
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:  # noqa: ARG002 - a client is always ready
        """Cancel all open batches."""
        for future in list(self._open):
            future.cancel()


_initialized: set[bytes] = set()
"""the ids of the parallel calls whose initializer was called in this process"""


def joblib_batch(
    batch: Callable[[], Any], call: bytes = b"", initializer: Callable[..., Any] | None = None, *initargs: Any
) -> Any:
    """Run a batch. The batch is an argument of the task, not its function: functions are kept for later tasks."""
    register()  # for a parallel call in the batch that names the back-end
    if initializer is not None and call not in _initialized:
        initializer(*initargs)
        _initialized.add(call)
    return batch()


def register(*, make_default: bool = False) -> None:
    """Register the back-end, so that `joblib.parallel_backend("scaler")` finds it.

    `parallel_backend("scaler", client=client)` chooses the client that submits; the default is one `Client()` for the
    whole process. With `make_default`, joblib uses the back-end from now on, even if no back-end is named.
    """
    register_parallel_backend(NAME, ScalerBackend, make_default=make_default)


@lru_cache(maxsize=1)
def _client_of(_process: int) -> Client:
    return Client()
