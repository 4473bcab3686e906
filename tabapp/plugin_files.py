"""The user's plugin folder: where it is, and which files in it define a model and which a metric.

Files are sorted into models and metrics by their syntax tree, so that listing them runs none of them.
"""

from __future__ import annotations

import ast
import errno
import importlib.util
import os
import shlex
import stat
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from tabapp.user_folders import config_folder

USER_PACKAGE = "tabapp_user_plugins"
"""Prefix of these modules in `sys.modules`, so that no file can shadow a library."""
METRIC_VARIABLE = "METRIC"
_MOST_LINKS = 40


def plugin_folder() -> Path:
    """The folder of the user's own plugins: `$TABAPP_PLUGINS_DIR`, or `plugins` next to the configuration file."""
    chosen = os.environ.get("TABAPP_PLUGINS_DIR")
    if chosen:
        return Path(chosen)
    return config_folder() / "plugins"


def model_files() -> dict[str, Path]:
    """Files that define a model, by the model's name."""
    return {name: file for name, (file, is_metric) in _files().items() if not is_metric}


def metric_files() -> dict[str, Path]:
    """Files that define a metric, by the metric's name: those that assign `METRIC` at the top level."""
    return {name: file for name, (file, is_metric) in _files().items() if is_metric}


@cache
def _files() -> dict[str, tuple[Path, bool]]:
    try:
        files = sorted(plugin_folder().glob("*.py"))
    except OSError:
        return {}
    named = [file for file in files if file.stem.isidentifier() and not file.stem.startswith("_")]
    return {file.stem: (file, _assigns_metric(file)) for file in named}


def _assigns_metric(file: Path) -> bool:
    try:
        body = ast.parse(file.read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return False
    targets = [
        target
        for statement in body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
    ]
    return any(isinstance(target, ast.Name) and target.id == METRIC_VARIABLE for target in targets)


class UnsafePlugin(ImportError):
    """Another user may change a plugin, and so run code with the rights of this one."""


def _check_rights(path: Path, status: os.stat_result) -> None:
    """Check that only this user or root may write a file or folder, or replace what is in it.

    Raises:
        UnsafePlugin: names the path and the command that corrects it.
    """
    if status.st_uid not in (0, os.geteuid()):
        raise UnsafePlugin(f"{path} belongs to another user; copy it, so that it belongs to you")
    # In a folder with the sticky bit, such as /tmp, others can add files, but cannot replace those of this user.
    is_sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_sticky:
        raise UnsafePlugin(f"other users may write {path}; `chmod go-w {shlex.quote(str(path))}` prevents that")


def _check_way(file: Path) -> None:
    """Check a file and every folder on the way to it, those that symbolic links lead through included.

    Raises:
        UnsafePlugin: somebody else may change one of them.
        OSError: the file does not exist, or links lead in a circle.
    """
    absolute = Path(os.path.abspath(file))
    here, ahead, n_links = Path(absolute.anchor), list(absolute.parts[1:]), 0
    _check_rights(here, here.lstat())
    while ahead:
        name = ahead.pop(0)
        if name == "..":
            here = here.parent
            continue
        path = here / name
        status = path.lstat()
        if not stat.S_ISLNK(status.st_mode):
            _check_rights(path, status)
            here = path
            continue
        n_links += 1
        if n_links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(file))
        if status.st_uid not in (0, os.geteuid()):
            raise UnsafePlugin(f"the link {path} belongs to another user; copy the file that it leads to")
        target = path.readlink()
        here = Path(target.anchor) if target.is_absolute() else here
        ahead = [*(target.parts[1:] if target.is_absolute() else target.parts), *ahead]


def load_module(file: Path) -> ModuleType:
    """Import a file of the plugin folder.

    Raises:
        UnsafePlugin: somebody else may change the file, or a folder on the way to it.
        ImportError: it is not a Python module.
        Exception: whatever the file raises.
    """
    _check_way(file)
    name = f"{USER_PACKAGE}.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
