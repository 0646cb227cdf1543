"""What scikit-learn expects of an estimator, in this library's errors."""

from __future__ import annotations

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from onlinehash.errors import InvalidInput, NotReady


class NotFitted(NotReady, NotFittedError):  # type: ignore[misc] # scikit-learn has no types
    """Nothing was learned or observed yet."""


def note_feature_names(estimator: object, X: object, first: bool) -> None:
    """Data frames carry column names, which scikit-learn remembers at first and compares later."""
    if not (hasattr(X, "columns") or hasattr(estimator, "feature_names_in_")):
        return
    try:
        validate_data(estimator, X=X, reset=first, skip_check_array=True)
    except ValueError as error:
        raise InvalidInput(" ".join(str(error).split())) from None
