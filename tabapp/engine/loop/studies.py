"""The trials of earlier sessions: opens the study of a run, and recovers the trials of a damaged one from events and fits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing, suppress

from optuna.storages import RDBStorage
from sqlalchemy.exc import OperationalError

from tabapp import files
from tabapp.engine.loop.recovery import set_aside
from tabapp.engine.schedule.tuning import KnownTrial, open_storage
from tabapp.run.record import events as ev
from tabapp.run.record.folder import RunFolder

COMPANIONS = ("-wal", "-shm", "-journal")


def open_study(folder: RunFolder, warn: Callable[[str], None]) -> RDBStorage:
    """Open the study of a run. A damaged one is set aside, with a warning, and replaced by an empty one."""
    damage = _damage(folder)
    if damage is None:
        try:
            return _opened(folder)
        except OperationalError:
            # The disk is full, or the file is locked or may not be written.
            raise
        except Exception as error:
            damage = f"{type(error).__name__}: {error}"
    for companion in COMPANIONS:
        with suppress(OSError):
            folder.path.joinpath(f"{folder.study.name}{companion}").unlink()
    set_aside(folder, folder.study, damage, warn, "Its trials are read from the events and the fits.")
    return _opened(folder)


def _opened(folder: RunFolder) -> RDBStorage:
    """Open the storage and read all of its trials, which raises if they cannot be understood."""
    storage = open_storage(folder.study)
    for study in storage.get_all_studies():
        storage.get_all_trials(study._study_id, deepcopy=False)  # pyright: ignore[reportPrivateUsage]
    return storage


def _damage(folder: RunFolder) -> str | None:
    """What is wrong with the database file; None if it is intact or does not exist."""
    if not folder.study.exists():
        return None
    try:
        files.open_to_read(folder.study).close()
        with closing(sqlite3.connect(folder.study)) as database:
            result = str(database.execute("PRAGMA quick_check").fetchone()[0])
    except (OSError, sqlite3.DatabaseError) as error:
        if isinstance(error, sqlite3.OperationalError):
            return None
        return str(error)
    return None if result == "ok" else result


def known_trials(folder: RunFolder, history: Iterable[ev.AnyEvent]) -> dict[str, dict[int, KnownTrial]]:
    """The trials of each model by number, as far as the fits and the events record them."""
    known: dict[str, dict[int, KnownTrial]] = {}
    for fit in folder.fits.glob("*-f*/params.json"):
        model, _, rest = fit.parent.name.rpartition("-f")[0].rpartition("-")
        with suppress(OSError, ValueError):
            params = files.read_json(fit)
            if fit.parent.suffix != ".damaged" and isinstance(params, dict):
                known.setdefault(model, {})[int(rest)] = KnownTrial(params)
    for event in history:
        match event:
            case ev.TrialFinished():
                trial = KnownTrial(event.params, "complete", event.score)
            case ev.TrialPruned():
                trial = KnownTrial(event.params, "pruned", event.score, event.reason)
            case _:
                continue
        known.setdefault(event.model, {})[event.trial] = trial
    return known
