"""The configuration of a resumed run."""

from __future__ import annotations

import pytest

from tabapp.errors import UsageError
from tabapp.run.record.folder import EventLog, EventReader, RunBusy
from tabapp.run.record.resuming import resumed_config
from tabapp.run.record.state import seconds_used
from tests.run.recording import finished, write_run


def test_complete_run_needs_more_budget_or_trials(tmp_path):
    folder = write_run(tmp_path)
    with pytest.raises(UsageError, match="is complete"):
        resumed_config(folder, None, None)
    assert resumed_config(folder, None, 9).trials == 9
    used = seconds_used(EventReader(folder.events).read_new())
    assert used > 0
    assert resumed_config(folder, 60.0, None).budget == used + 60.0


def test_stopped_run_keeps_its_configuration(tmp_path):
    folder = write_run(tmp_path)
    log = EventLog(folder.events)
    log.append(finished(folder.run, status="interrupted"))
    log.close()
    config = resumed_config(folder, None, None)
    assert config.start
    assert (config.budget, config.trials) == (folder.config().budget, folder.config().trials)


def test_a_finished_run_that_is_analyzed_is_rejected(tmp_path):
    folder = write_run(tmp_path)
    with folder.lock(), pytest.raises(RunBusy, match="has ended, and another process is analyzing it"):
        resumed_config(folder, None, 9)
