"""A full disk behind the errors of several libraries."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from tabapp.engine.session import Session
from tabapp.run.disk import is_disk_full
from tabapp.run.options.config import RunConfig
from tabapp.run.record.folder import create_run


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The free space of every disk, in bytes."""
    usage = SimpleNamespace(free=1 << 40)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    return usage


@pytest.fixture
def full_database(tmp_path: Path) -> OperationalError:
    """What SQLAlchemy raises where SQLite may not use another page."""
    engine = create_engine(f"sqlite:///{tmp_path}/full.db")
    with engine.connect() as connection:
        connection.execute(text("PRAGMA max_page_count = 1"))
        with pytest.raises(OperationalError, match="disk is full") as caught:
            connection.execute(text("CREATE TABLE numbers (number INTEGER)"))
    engine.dispose()
    return caught.value


def raised_from(cause: BaseException) -> ValueError:
    try:
        try:
            raise cause
        except type(cause) as error:
            raise ValueError("not written") from error
    except ValueError as error:
        return error


def test_the_cause_of_an_error_is_found(tmp_path, free, full_database):
    full = OSError(errno.ENOSPC, "No space left on device")
    for error in (full, OSError(errno.EDQUOT, "Quota"), raised_from(full), full_database):
        assert is_disk_full(error, tmp_path)
    for error in (OSError(errno.EACCES, "Denied"), sqlite3.OperationalError("locked"), raised_from(KeyError("a"))):
        assert not is_disk_full(error, tmp_path)


def test_a_disk_without_space_is_the_cause_of_any_error(tmp_path, free):
    free.free = 9_849
    assert is_disk_full(ValueError("Cannot write binary data to model.txt, wrote 40960 of 50809 bytes"), tmp_path)


def test_a_run_names_the_full_disk(tmp_path, free, full_database, monkeypatch):
    """Not the SQL that had no space."""
    folder = create_run(RunConfig(data=str(tmp_path / "t.csv")), tmp_path / "runs")

    def conduct(session: Session, config: RunConfig) -> None:
        raise full_database

    monkeypatch.setattr(Session, "_conduct", conduct)
    assert Session(folder).run() == 1
    finished = folder.state().finished
    assert finished is not None
    assert finished.message == (
        f"The disk of {folder.path} is full. Free some space, then continue with `tabapp resume {folder.argument}`."
    )
