"""joblib and scikit-learn on Scaler: the same values as with joblib's own processes."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from scaler import Client, ConfigError, SchedulerClusterCombo
from tests.bridges.needs import needs
from tests.support.processes import wait_until

joblib = needs("joblib")
pytestmark = [pytest.mark.more, pytest.mark.processes]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with SchedulerClusterCombo(2, logging_level="WARNING") as cluster, Client(cluster.get_address()) as client:
        yield client


@pytest.fixture
def backend(client: Client) -> Iterator[None]:
    import scaler.integrations.joblib

    scaler.integrations.joblib.register()
    with joblib.parallel_config(backend="scaler", client=client):
        yield


def half(number: float) -> float:
    return number / 2


def fail(number: int) -> int:
    if number == 3:
        raise ValueError(f"bad {number}")
    return number


def nested(number: int) -> float:
    return sum(joblib.Parallel(n_jobs=2)(joblib.delayed(half)(n) for n in range(number)))


@pytest.mark.usefixtures("backend")
def test_calls_come_back_in_their_order() -> None:
    assert joblib.effective_n_jobs(-1) == 2
    assert joblib.Parallel()(joblib.delayed(half)(n) for n in range(2000)) == [n / 2 for n in range(2000)]
    results = joblib.Parallel(return_as="generator")(joblib.delayed(half)(n) for n in range(50))
    assert list(results) == [n / 2 for n in range(50)]
    unordered = joblib.Parallel(return_as="generator_unordered")(joblib.delayed(half)(n) for n in range(50))
    assert sorted(unordered) == [n / 2 for n in range(50)]


@pytest.mark.usefixtures("backend")
def test_parallel_calls_inside_of_parallel_calls() -> None:
    assert joblib.Parallel()(joblib.delayed(nested)(n) for n in range(4)) == [0.0, 0.0, 0.5, 1.5]


@pytest.mark.usefixtures("backend")
def test_an_exception_arrives_and_the_rest_is_cancelled(client: Client) -> None:
    with pytest.raises(ValueError, match="bad 3"):
        joblib.Parallel(batch_size=1)(joblib.delayed(fail)(n) for n in range(100))
    wait_until(lambda: sum(worker.tasks for worker in client.workers()) == 0, "nothing is left")
    assert joblib.Parallel()(joblib.delayed(half)(n) for n in range(4)) == [0, 0.5, 1, 1.5]


@pytest.mark.usefixtures("backend")
def test_a_time_out_frees_the_workers(client: Client) -> None:
    with pytest.raises(multiprocessing.TimeoutError):
        joblib.Parallel(timeout=0.3)(joblib.delayed(time.sleep)(60) for _ in range(4))
    assert joblib.Parallel()(joblib.delayed(half)(n) for n in range(4)) == [0, 0.5, 1, 1.5]


def inner_processes(_number: int) -> set[int]:
    return {os.getpid(), *joblib.Parallel(n_jobs=2)(joblib.delayed(os.getpid)() for _ in range(4))}


@pytest.mark.usefixtures("backend")
def test_a_parallel_call_in_a_task_stays_in_its_process() -> None:
    assert [len(pids) for pids in joblib.Parallel()(joblib.delayed(inner_processes)(n) for n in range(2))] == [1, 1]


def has_tasks_of_its_own(number: int) -> bool:
    pids = joblib.Parallel(n_jobs=2, backend="scaler")(joblib.delayed(os.getpid)() for _ in range(number))
    return len(pids) == number and os.getpid() not in pids


@pytest.mark.usefixtures("backend")
def test_a_parallel_call_in_a_task_that_names_the_back_end_has_tasks_of_its_own() -> None:
    """As libraries do that pass the name of a back-end down."""
    assert joblib.Parallel()(joblib.delayed(has_tasks_of_its_own)(n) for n in (1, 4)) == [True, True]


@pytest.mark.usefixtures("backend")
def test_batch_sizes_that_a_call_learned_do_not_affect_the_next() -> None:
    parallel = joblib.Parallel()
    assert len(parallel(joblib.delayed(half)(n) for n in range(5000))) == 5000
    assert parallel._backend.compute_batch_size() == 1


def test_the_number_of_inner_threads_is_that_of_the_cluster(client: Client) -> None:
    with pytest.raises(AssertionError, match="inner_max_num_threads"):
        joblib.parallel_config(backend="scaler", client=client, inner_max_num_threads=2)


def kind_of(array: Any) -> tuple[str, bool]:
    return type(array).__name__, bool(array.flags.writeable)


@pytest.mark.usefixtures("backend")
def test_large_arrays_are_copies_and_no_memory_maps() -> None:
    numpy = needs("numpy")
    assert joblib.Parallel()(joblib.delayed(kind_of)(numpy.zeros(500_000)) for _ in range(2)) == [("ndarray", True)] * 2


def scores(backend: str, **options: Any) -> tuple[list[float], dict[str, Any], list[float]]:
    """Grid search and a forest on the bundled digits."""
    datasets, ensemble = needs("sklearn.datasets"), needs("sklearn.ensemble")
    selection, svm = needs("sklearn.model_selection"), needs("sklearn.svm")
    digits = datasets.load_digits()
    data, target = digits.data[:400], digits.target[:400]
    with joblib.parallel_config(backend=backend, n_jobs=2, **options):
        search = selection.GridSearchCV(svm.SVC(), {"C": [0.1, 1, 10], "gamma": [1e-4, 1e-3]}, cv=3).fit(data, target)
        forest = ensemble.RandomForestClassifier(40, random_state=0)
        forest_scores = selection.cross_val_score(forest, data, target, cv=3)
    return list(search.cv_results_["mean_test_score"]), search.best_params_, list(forest_scores)


@pytest.mark.usefixtures("backend")
def test_scikit_learn_has_the_same_scores_as_with_loky(client: Client) -> None:
    assert scores("scaler", client=client) == scores("loky")


def test_scipy_takes_the_map_of_an_executor(client: Client) -> None:
    optimize = needs("scipy.optimize")
    bounds, options = [(0, 2)] * 2, {"updating": "deferred", "rng": 1, "maxiter": 5, "popsize": 5}
    with client.as_executor() as executor:
        ours = optimize.differential_evolution(optimize.rosen, bounds, workers=executor.map, **options)
        best = optimize.brute(optimize.rosen, (slice(0, 2, 0.25),) * 2, finish=None, workers=executor.map)
    theirs = optimize.differential_evolution(optimize.rosen, bounds, **options)
    assert ours.fun == theirs.fun
    assert list(ours.x) == list(theirs.x)
    assert list(best) == [1, 1]


_prepared: list[str] = []


def prepare(word: str) -> None:
    _prepared.append(word)


def what_was_prepared(_number: int) -> list[str]:
    time.sleep(0.01)
    return list(_prepared)


@pytest.mark.usefixtures("backend")
def test_the_initializer_of_a_parallel_call_runs_once_in_each_process() -> None:
    calls = [joblib.delayed(what_was_prepared)(number) for number in range(20)]
    assert joblib.Parallel(n_jobs=2, initializer=prepare, initargs=("one",))(calls) == [["one"]] * 20
    assert joblib.Parallel(n_jobs=2, initializer=prepare, initargs=("two",))(calls) == [["one", "two"]] * 20


def test_a_client_with_a_seed_is_refused(client: Client) -> None:
    import scaler.integrations.joblib

    with pytest.raises(ConfigError, match="of joblib, would draw the same numbers"):
        scaler.integrations.joblib.ScalerBackend(client.options(seed=7))
