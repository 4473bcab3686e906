"""Hyperparameters that the options of a run fix in all trials."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from tabapp.data.schema import Schema
from tabapp.errors import UsageError, did_you_mean, option
from tabapp.models import registry
from tabapp.run.options.config import RunConfig


def directions_of(config: RunConfig, schema: Schema) -> dict[str, int]:
    """The constraints of `--monotonic` as numbers.

    Raises:
        UsageError: they are not possible for the target or a column.
    """
    monotonic = option("monotonic")
    if config.monotonic and schema.task == "multiclass":
        raise UsageError(
            f"{monotonic} is for a number or two classes; {schema.target!r} has {len(schema.classes)} classes. Leave it out."
        )
    if config.monotonic and config.other_targets:
        raise UsageError(f"{monotonic} is for one target. Name one {option('target')}, or leave {monotonic} out.")
    kinds = {column.name: column.kind for column in schema.inputs}
    for name in config.monotonic:
        if name not in kinds:
            raise UsageError(f"{monotonic}: {name!r} is not a feature column{did_you_mean(name, kinds) or '.'}")
        if kinds[name] != "numeric":
            raise UsageError(
                f"{monotonic}: {name!r} is {kinds[name]}, not numeric. Leave it out, or set "
                f"{option('kind', {name: 'numeric'})} if its cells are numbers."
            )
    return {name: 1 if sign == "+" else -1 for name, sign in config.monotonic.items()}


def fixed_of(config: RunConfig) -> dict[str, dict[str, Any]]:
    """The values of `--set` as JSON values, by model and hyperparameter. A value of a model is also that of its presets, such as
    `npt:base`, that the run trains; a value of a preset itself comes before it.

    Raises:
        UsageError: a model or a hyperparameter is unknown, the run does not train the model, or the value is of the wrong type.
    """
    found: dict[str, dict[str, Any]] = {}
    for key, text in sorted(config.fixed.items(), key=lambda item: ":" in item[0].partition(".")[0]):
        what, (model, dot, name) = option("set", {key: text}), key.partition(".")
        if not dot:
            raise UsageError(f"{what} does not have the form MODEL.NAME=VALUE.")
        registry.check_names([model])
        trained = [
            each
            for each in config.models or (model,)
            if model in (each, each.partition(":")[0]) and each not in config.exclude
        ]
        if not trained:
            raise UsageError(
                f"{what}: the run does not train {model}. Add it to {option('models')}, or leave the value out."
            )
        for each in trained:
            params_type = registry.get(each).params_type
            fields = {field.name: field.type for field in msgspec.structs.fields(params_type)}
            if name not in fields:
                raise UsageError(f"{what}: {each} has no hyperparameter {name!r}{_suggestion(name, fields)}")
            try:
                found.setdefault(each, {})[name] = msgspec.to_builtins(msgspec.convert(_value(text), fields[name]))
            except msgspec.ValidationError as error:
                values = _values(fields[name])
                if values:
                    raise UsageError(f"{what} cannot be used: the values are {', '.join(values)}.") from None
                raise UsageError(f"{what} cannot be used: {str(error)[:1].lower()}{str(error)[1:]}.") from None
    return found


def _suggestion(name: str, names: Collection[str]) -> str:
    return did_you_mean(name, names) or f"; the hyperparameters are {', '.join(names)}."


def _values(field: Any) -> list[str]:
    """The words that a hyperparameter can be; empty if there are others than a few words."""
    parts = get_args(field) if get_origin(field) in (Union, UnionType) else (field,)
    words = [str(word) for part in parts if get_origin(part) is Literal for word in get_args(part)]
    others = [part for part in parts if get_origin(part) is not Literal and part is not type(None)]
    return [] if others or not words else [*words, *(["None"] if type(None) in parts else [])]


def _value(text: str) -> Any:
    """The value that a text means: JSON, a word of Python, or the text itself."""
    words: Mapping[str, Any] = {"True": True, "False": False, "None": None}
    if text in words:
        return words[text]
    try:
        return json.loads(text)
    except ValueError:
        return text
