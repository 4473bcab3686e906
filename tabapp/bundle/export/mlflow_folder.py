"""Writes a bundle as an MLflow model: a folder that `mlflow.pyfunc.load_model` reads. MLflow itself is not needed.

The format is that of models from code: the folder contains the bundle and a short script that loads it with tabapp.
"""

from __future__ import annotations

import json
import platform
import uuid
from datetime import UTC, datetime
from pathlib import Path

from tabapp import __version__, files
from tabapp.bundle.files.contents import Contents
from tabapp.data.schema import Schema
from tabapp.errors import UsageError
from tabapp.printable import escape_json

MLFLOW_VERSION = "2.19.0"
"""The oldest version that reads such a folder: the first with the type `any`."""
_SCRIPT = '''\
"""Predicts with a tabapp bundle; MLflow runs this file when it loads the model."""

import mlflow
import pandas as pd
import tabapp


class TabappModel(mlflow.pyfunc.PythonModel):
    def load_context(self, context):
        self.predictor = tabapp.load(context.artifacts["bundle"])

    def predict(self, context, model_input, params=None):
        predictor = self.predictor
        if not predictor.classes:
            found = predictor.predict_interval(model_input)
        else:
            found = predictor.predict_proba(model_input).add_prefix("probability_")
        prediction = predictor.predict(model_input).rename("prediction")
        return pd.concat([prediction, found], axis=1)


mlflow.models.set_model(TabappModel())
'''
_BUNDLE, _CODE = "artifacts/model.tabapp", "tabapp_model.py"


def write_mlflow(contents: Contents, folder: Path) -> None:
    """Write an MLflow model of a bundle.

    Args:
        contents: the verified bundle.
        folder: a new or empty folder.

    Raises:
        UsageError: the folder is not empty or cannot be written.
    """
    python = ".".join(platform.python_version_tuple()[:2])
    requirements = f"mlflow>={MLFLOW_VERSION}\npandas\ntabapp=={__version__}\n"
    environment = f"python: '{python}'\nbuild_dependencies:\n- pip\ndependencies:\n- -r requirements.txt\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty. Choose a new folder with --mlflow.")
        (folder / "artifacts").mkdir()
        files.write_bytes(folder / _BUNDLE, files.read_regular(contents.path))
        files.write_text(folder / _CODE, _SCRIPT)
        files.write_text(folder / "requirements.txt", requirements)
        files.write_text(folder / "python_env.yaml", environment)
        files.write_text(folder / "MLmodel", _description(contents, python))
    except OSError as error:
        raise UsageError(f"{folder} cannot be written ({error.strerror}). Choose another folder.") from None


def _description(contents: Contents, python: str) -> str:
    """The file `MLmodel`, in YAML."""
    schema = contents.schema
    inputs, outputs = (escape_json(json.dumps(each(schema))) for each in (_inputs, _outputs))
    return f"""\
flavors:
  python_function:
    artifacts:
      bundle:
        path: {_BUNDLE}
        uri: {_BUNDLE}
    env:
      virtualenv: python_env.yaml
    loader_module: mlflow.pyfunc.loaders.code_model
    model_code_path: {_CODE}
    python_version: '{python}'
    streamable: false
mlflow_version: {MLFLOW_VERSION}
model_uuid: {uuid.uuid4().hex}
run_id: null
signature:
  inputs: {_quoted(inputs)}
  outputs: {_quoted(outputs)}
  params: null
utc_time_created: '{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}'
"""


def _inputs(schema: Schema) -> list[dict[str, object]]:
    """The features. MLflow refuses a column of another type than the declared one, such as int64 for double or a category for
    string. pandas has the cells of one file in several types, which tabapp reads alike."""
    return [{"type": "any", "name": column.name, "required": False} for column in schema.inputs]


def _outputs(schema: Schema) -> list[dict[str, object]]:
    if not schema.classes:
        return [{"type": "double", "name": name} for name in ("prediction", "low", "high")]
    columns = [("string", "prediction"), *(("double", f"probability_{label}") for label in schema.classes)]
    return [{"type": kind, "name": name} for kind, name in columns]


def _quoted(text: str) -> str:
    """A text as a YAML string in single quotes."""
    return "'" + text.replace("'", "''") + "'"
