"""How the rows of a request are compared with training, by the parameters of its address."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from tabapp.data.new_rows.decimal_marks import AUTO
from tabapp.serve.bodies import CSV
from tabapp.serve.limits import RequestError


@dataclass(frozen=True)
class Acceptance:
    """How rows are compared with training; the fields are arguments of `NewRows`."""

    fill: bool = False
    strict: bool = False
    decimal: str | None = None


def acceptance_of(request: Request, sent: str) -> Acceptance:
    """How the rows of a request are compared with training.

    Args:
        sent: media type of the body. Only the numbers of a CSV file have a decimal mark that may differ from training.

    Raises:
        RequestError: a parameter has an unknown value.
    """
    fill = _choice(request, "missing_columns", ("error", "fill")) == "fill"
    strict = _choice(request, "strict", ("false", "true")) == "true"
    decimal = _choice(request, "decimal", (AUTO, ".", ","))
    return Acceptance(fill, strict, decimal if sent == CSV else None)


def _choice(request: Request, name: str, values: Sequence[str]) -> str:
    """The value of a parameter; the first one without it.

    Raises:
        RequestError: it has another value.
    """
    value = request.query_params.get(name, values[0])
    if value not in values:
        raise RequestError(400, f"{name}={value!r} is not known. Use {' or '.join(values)}.", closes=True)
    return value
