"""The OpenAPI document of a server, with schemas and examples from its bundles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from tabapp import __version__
from tabapp.data.forms.moments import describe_format
from tabapp.data.schema import Column, Schema
from tabapp.serve.bodies import ARROW, CSV, JSON, PARQUET
from tabapp.serve.bundles import Bundles, ServedBundle
from tabapp.serve.examples import MOST_LEVELS, example_row
from tabapp.serve.limits import MOST_EXPLAINED, Limits

_ERRORS = {
    "400": "The body is not valid JSON.",
    "401": "The token is missing or wrong.",
    "403": "The request comes from another host or origin.",
    "404": "There is no such address or bundle.",
    "405": "The address does not support the method.",
    "406": "None of the formats in Accept is supported.",
    "408": "The body did not arrive in time.",
    "413": "The body has too many bytes or rows.",
    "415": "The Content-Type is not supported.",
    "422": "Columns are missing, or values do not fit their columns.",
    "500": "A bug in tabapp.",
    "503": "The server is busy, or the models are being restarted.",
}
_COMMON = ("401", "403", "500")
_PREDICT = tuple(_ERRORS)


def document(bundles: Bundles, limits: Limits, *, needs_token: bool) -> dict[str, Any]:
    """The document of the present versions of all bundles."""
    default, *_ = bundles
    paths: dict[str, Any] = {
        "/health": {"get": _health()},
        "/metrics": {"get": _get("Metrics in the text format of Prometheus", {"text/plain": {"schema": _TEXT}})},
        "/openapi.json": {"get": _get("This document", {JSON: {"schema": {"type": "object"}}})},
        "/bundles": {"get": _get("Names of the bundles", {JSON: {"schema": _BUNDLES}})},
        **_paths_of(default, "", limits),
    }
    for bundle in bundles:
        paths |= _paths_of(bundle, f"/bundles/{quote(bundle.name, safe='')}", limits)
    for name, served in bundles.with_targets.items():
        paths[f"/bundles/{quote(name, safe='')}/predict"] = {"post": _predict_all(name, served, limits)}
    several = bundles.of_file(None)
    if len(several) > 1:
        paths["/predict"] = {"post": _predict_all(default.name.removesuffix(f".{default.target}"), several, limits)}
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "tabapp",
            "version": __version__,
            "description": f"Predictions of {', '.join(bundle.name for bundle in bundles)}. "
            "Errors are JSON objects with one sentence in `error`.",
        },
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR}},
    }
    if needs_token:
        made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"token": []}]
    return made


_TEXT = {"type": "string"}
_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string", "minLength": 1}},
    "additionalProperties": False,
}
_BUNDLES = {
    "type": "object",
    "required": ["bundles", "default"],
    "properties": {"bundles": {"type": "array", "items": _TEXT}, "default": _TEXT},
}


def _error(status: str) -> dict[str, Any]:
    return {
        "description": _ERRORS[status],
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
    }


def _get(summary: str, content: dict[str, Any], errors: Iterable[str] = _COMMON) -> dict[str, Any]:
    responses = {"200": {"description": "Done", "content": content}}
    return {"summary": summary, "responses": responses | {status: _error(status) for status in errors}}


def _health() -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": ["status"],
        "properties": {"status": {"enum": ["ok", "degraded"]}, "bundles": {"type": "object"}},
    }
    state = {"description": "The state of each bundle", "content": {JSON: {"schema": schema}}}
    responses = {"200": state, "503": state, "403": _error("403"), "500": _error("500")}
    return {"summary": "Whether all bundles predict; needs no token", "security": [], "responses": responses}


def _paths_of(bundle: ServedBundle, prefix: str, limits: Limits) -> dict[str, Any]:
    schema = bundle.version.contents.schema
    described = _get(f"What {bundle.name} predicts, and its columns", {JSON: {"schema": {"type": "object"}}})
    return {
        f"{prefix}/schema": {"get": described},
        f"{prefix}/predict": {"post": _predict(bundle.name, schema, limits)},
        f"{prefix}/explain": {"post": _explain(bundle.name, schema, limits)},
    }


def _predict(name: str, schema: Schema, limits: Limits) -> dict[str, Any]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {
        "summary": f"Predict {schema.target} with {name}",
        "description": "The answer has one prediction for each row, in the same order. Without Accept, it has the format of the "
        f"request. Limits: {limits.max_rows:,} rows and {limits.max_body:,} bytes.",
        "parameters": _ACCEPTANCE,
        "requestBody": _rows(schema, limits.max_rows),
        "responses": {
            "200": {
                "description": "Predictions",
                "content": {JSON: {"schema": _answer(schema)}, CSV: {"schema": _TEXT}, ARROW: binary, PARQUET: binary},
            },
            **{status: _error(status) for status in _PREDICT},
        },
    }


def _predict_all(name: str, served: Sequence[ServedBundle], limits: Limits) -> dict[str, Any]:
    """Predictions of all targets of a file: each row has an object for each target."""
    schemas = {bundle.version.contents.schema.target: bundle.version.contents.schema for bundle in served}
    described = _predict(name, served[0].version.contents.schema, limits)
    described["summary"] = f"Predict {', '.join(schemas)} with {name}"
    answer = _answer(served[0].version.contents.schema)
    answer["properties"]["predictions"]["items"] = {
        "type": "object",
        "required": list(schemas),
        "additionalProperties": False,
        "properties": {
            target: _answer(schema)["properties"]["predictions"]["items"] for target, schema in schemas.items()
        },
    }
    described["responses"]["200"]["content"][JSON]["schema"] = answer
    return described


def _explain(name: str, schema: Schema, limits: Limits) -> dict[str, Any]:
    label = {
        "name": "class",
        "in": "query",
        "description": "The class whose probability is explained; by default the one predicted for the first row.",
        "schema": {"enum": list(schema.classes)},
    }
    return {
        "summary": f"Explain predictions of {schema.target} with {name}",
        "description": "Contributions of each column; base plus contributions is the output of a row. "
        f"Limits: {MOST_EXPLAINED} rows and {limits.max_body:,} bytes.",
        "parameters": [*_ACCEPTANCE, *([label] if schema.classes else [])],
        "requestBody": _rows(schema, MOST_EXPLAINED),
        "responses": {
            "200": {"description": "Explanations", "content": {JSON: {"schema": _EXPLANATIONS}}},
            **{status: _error(status) for status in _PREDICT},
        },
    }


_MISSING_COLUMNS = {
    "name": "missing_columns",
    "in": "query",
    "description": "Reject rows without all columns, or fill absent and mistyped columns with missing values.",
    "schema": {"enum": ["error", "fill"], "default": "error"},
}
_STRICT = {
    "name": "strict",
    "in": "query",
    "description": "Reject rows in which a column differs from training, such as by its scale, instead of noting it.",
    "schema": {"enum": ["false", "true"], "default": "false"},
}
_DECIMAL = {
    "name": "decimal",
    "in": "query",
    "description": "Decimal mark of the numbers in CSV; by default it is detected.",
    "schema": {"enum": ["auto", ".", ","], "default": "auto"},
}
_ACCEPTANCE = [_MISSING_COLUMNS, _STRICT, _DECIMAL]
_EXPLANATIONS = {
    "type": "object",
    "required": ["base", "rows", "notes"],
    "properties": {
        "base": {"type": "number"},
        "rows": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["row", "prediction", "output", "contributions", "error"],
                "properties": {
                    "output": {"type": "number"},
                    "contributions": {"type": "object", "additionalProperties": {"type": "number"}},
                },
            },
        },
    },
}


def _rows(schema: Schema, most: int) -> dict[str, Any]:
    """A request body."""
    request = {
        "type": "object",
        "required": ["rows"],
        "additionalProperties": False,
        "properties": {"rows": {"type": "array", "maxItems": most, "items": _row(schema)}},
    }
    example, binary = example_row(schema), {"schema": {"type": "string", "format": "binary"}}
    return {
        "required": True,
        "content": {
            JSON: {"schema": request, "example": {"rows": [example]}},
            CSV: {"schema": _TEXT, "example": _csv(example)},
            ARROW: binary,
            PARQUET: binary,
        },
    }


def _csv(row: dict[str, Any]) -> str:
    import polars as pl

    return pl.DataFrame({name: pl.Series([value]) for name, value in row.items()}).write_csv()


def _row(schema: Schema) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [column.name for column in schema.inputs],
        "properties": {column.name: _cell(column) for column in schema.inputs},
    }


def _cell(column: Column) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": ["number", "string", "boolean", "null"], "description": f"{column.kind}"}
    if column.kind == "numeric" and column.low is not None and column.high is not None:
        facts["description"] = f"numeric, {column.low:g} to {column.high:g} in training"
    elif column.kind == "datetime" and column.datetime_format is not None:
        facts["description"] = f"datetime in ISO 8601, or as in training: {describe_format(column.datetime_format)}"
    elif column.levels:
        facts["examples"] = list(column.levels[: min(MOST_LEVELS, 20)])
    return facts


def _answer(schema: Schema) -> dict[str, Any]:
    probability = {"type": "number", "minimum": 0, "maximum": 1}
    if schema.classes:
        prediction: dict[str, Any] = {
            "type": "object",
            "required": ["prediction", "probabilities"],
            "additionalProperties": False,
            "properties": {
                "prediction": {"enum": list(schema.classes)},
                "probabilities": {
                    "type": "object",
                    "required": list(schema.classes),
                    "properties": dict.fromkeys(schema.classes, probability),
                    "additionalProperties": False,
                },
            },
        }
    else:
        bound = {"type": ["number", "null"]}
        prediction = {
            "type": "object",
            "required": ["prediction", "low", "high"],
            "additionalProperties": False,
            "properties": {"prediction": {"type": "number"}, "low": bound, "high": bound},
        }
    return {
        "type": "object",
        "required": ["predictions", "notes"],
        "properties": {
            "predictions": {"type": "array", "items": prediction},
            "notes": {"type": "array", "items": _TEXT},
        },
    }
