"""Dask's own tests, with Scaler as the scheduler: those named here, of the dask that is installed.

Not here, because tasks run in other processes, and dask's `processes` fail them too:

- `test_delayed`: `test_callable_obj` and `test_traverse_false` compare values by `is`;
- `test_bag`: `test_to_delayed_optimize_graph` counts the calls of a function in the program.

Of the others those are left out that take long, or choose a scheduler themselves.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.bridges.needs import needs
from tests.support.processes import run_python

needs("dask.dataframe")
pytestmark = [pytest.mark.more, pytest.mark.foreign, pytest.mark.processes]

NAMES = {
    "dask.tests.test_delayed": """
        array_bag_delayed array_delayed attributes delayed delayed_callable delayed_decorator_on_method delayed_errors
        delayed_method_descriptor delayed_name delayed_picklable delayed_with_dataclass delayed_with_namedtuple
        deterministic_name iterators keys_from_array kwargs lists lists_are_concrete literates literates_keys
        method_getattr_call_same_task methods nout operators pure to_task_dask
    """,
    "dask.bag.tests.test_bag": """
        accumulate aggregation bag_map concat distinct filter flatten fold foldby frequencies from_delayed
        groupby_with_indexer join map_partitions map_with_iterator_function non_splittable_reductions pluck product
        random_sample_random_state read_text reductions repartition_names starmap std take
        to_textfiles_name_function_preserves_order topk tree_reductions unzip var zip
    """,
    "dask.array.tests.test_linalg": """
        cholesky dask_svd_self_consistent linalg_consistent_names lu_1 no_chunks_svd svd_compressed_shapes
        svd_full_matrices_false tsqr
    """,
    "dask.array.tests.test_overlap": "boundaries map_overlap_multiarray overlap_internal overlap_internal_asymmetric",
    "dask.array.tests.test_reductions": "moment reductions_0D topk_argtopk3 trace tree_reduce_depth",
    "dask.dataframe.dask_expr.tests.test_groupby": """
        dataframe_groupby_agg_custom_sum groupby_agg groupby_mean_slice series_groupby_agg
    """,
    "dask.dataframe.dask_expr.tests.test_merge": "join_recursive merge_len merge_npartitions merge_repartition",
}
"""without `test_`"""


OPTIONS = ["-q", "-s", "-c", "pytest.ini", "-p", "tests.bridges.on_scaler", "-p", "no:cacheprovider", "-W", "ignore"]


def there() -> list[str]:
    """Return those that the installed dask has: another version may have renamed some."""
    found = []
    for module, names in NAMES.items():
        spec = importlib.util.find_spec(module)
        text = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
        found += [f"{module}::test_{name}" for name in names.split() if f"\ndef test_{name}(" in text]
    return found


@pytest.mark.timeout(300)
def test_dask_finds_no_difference(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").touch()
    names = there()
    assert len(names) > 60
    done = run_python("-m", "pytest", *OPTIONS, "--pyargs", *names, folder=tmp_path, seconds=280)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    [graphs] = re.findall(r"(\d+) graphs on Scaler", done.stdout)
    [passed] = re.findall(r"(\d+) passed", done.stdout)
    assert int(graphs) > 100
    assert int(passed) > len(names)
