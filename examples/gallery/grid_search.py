"""Grid search: scikit-learn finds the best support vector machine for its own data set of handwritten digits.

The program uses scikit-learn as usual; one line runs its parallel part on Scaler.
"""

from __future__ import annotations

import joblib
from side_by_side import arguments, side_by_side
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import scaler.integrations.joblib
from scaler import Client

FOLDS = 3


def search(size: int) -> tuple[dict[str, float], float]:
    """Return the best parameters, and the share of digits that are classified correctly with them."""
    digits = load_digits()
    grid = {"C": [10.0**power for power in range(size)], "gamma": [10.0 ** (-power - 1) for power in range(size)]}
    found = GridSearchCV(SVC(), grid, cv=FOLDS).fit(digits.data / 16, digits.target)
    return found.best_params_, float(found.best_score_)


def on_cluster(client: Client, size: int) -> tuple[dict[str, float], float]:
    """Run the search on the workers of the cluster."""
    with joblib.parallel_config(backend="scaler", client=client):
        return search(size)


def main() -> None:
    """Search a square grid."""
    options = arguments("Find the best parameters of a classifier of digits.", 7, "values of each of two parameters")
    scaler.integrations.joblib.register()

    (parameters, score), verdict = side_by_side(
        lambda: search(options.size),
        lambda client: on_cluster(client, options.size),
        options.workers,
        preload=("sklearn.model_selection", "sklearn.svm"),  # importing it takes seconds in each worker process
    )

    print(f"{options.size**2} candidates, {FOLDS} folds each")
    print(f"best: C={parameters['C']:g}, gamma={parameters['gamma']:g}, {score:.2%} of the digits right")
    print(verdict)


if __name__ == "__main__":
    main()
