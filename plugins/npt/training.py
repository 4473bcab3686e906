"""Training of NPT until a step or a deadline: Kossen et al. 2021, section 2.6 and appendix C.5."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from tabapp.models.contract import FitContext
from tabapp.nn.training.checkpoint import Progress, Saving, load_checkpoint, save_checkpoint

from .network import NPTNetwork
from .params import NPTParams
from .steps import Rows, Steps

SPARE_TIME = 0.85
"""Share of the time left that is planned, to leave room for the last steps and evaluations."""


@dataclass(frozen=True)
class Training:
    """Result of training: number of steps, the step of the best weights, and their loss."""

    n_steps: int
    best_step: int
    best_loss: float


def train_npt(
    network: NPTNetwork,
    rows: Rows,
    params: NPTParams,
    evaluate: Callable[[], tuple[float, float]],
    context: FitContext,
) -> Training:
    """Train on the fit's device, and leave the weights in the network that were best by `evaluate`.

    If not all steps fit before the deadline, fewer are planned, so that the learning rate is annealed and the trade-off
    is shifted to the targets by the last step. Checkpoints are written to the fit's folder; a repeated fit resumes from them with
    the same result.

    Args:
        rows: rows on the device. Targets that must not be seen in training are hidden.
        evaluate: the loss of the early-stopping rows, and the score to report.

    Raises:
        FitStopped: the engine has pruned or canceled the fit.
        torch.OutOfMemoryError: not even `LEAST_BATCH_ROWS` rows fit.
    """
    steps = Steps(network, rows, params, context)
    pace = Pace(context.seconds_left, params.n_steps)
    n_fast = steps.optimizer.n_fast
    every = max(1, round(params.n_steps / params.n_evaluations / n_fast)) * n_fast
    weights = dict(network.state_dict())
    best = {name: t.clone() for name, t in weights.items()}
    best_loss, best_step = math.inf, 0
    state = {"network": weights, "best": best, "moments": steps.optimizer.state(), "order": steps.state}
    started, saving = time.monotonic(), Saving()
    seconds_before = 0.0
    if resumed := load_checkpoint(context.folder, state, None):
        best_loss, best_step, seconds_before = resumed.best_loss, resumed.best_epoch, resumed.seconds
        steps.resume(resumed.n_steps, resumed.chunk)
        pace.resume(resumed.n_steps, resumed.planned_epochs)
    while steps.n_steps < pace.n_steps:
        steps.run(pace.n_steps)
        last = pace.after(steps.n_steps)
        if steps.n_steps % every == 0 or last:
            network.eval()
            # After the deadline, no score is reported, and the first weights are the best whatever their loss.
            is_needed = best_step or context.seconds_left() > 0
            loss, score = evaluate() if is_needed else (math.inf, math.nan)
            if loss < best_loss or not best_step:
                best_loss, best_step = loss, steps.n_steps
                for name, t in weights.items():
                    best[name].copy_(t)
            if context.seconds_left() > 0:
                context.report(steps.n_steps, score)
                pace.plan(steps.n_steps)
            if saving.is_due() and not last:
                progress = Progress(
                    epoch=steps.n_steps,
                    best_epoch=best_step,
                    best_loss=best_loss,
                    n_steps=steps.n_steps,
                    planned_epochs=pace.n_steps,
                    chunk=steps.batch_rows,
                    seconds=seconds_before + time.monotonic() - started,
                )
                with saving.timed():
                    steps.note_random_state()
                    save_checkpoint(context.folder, state, None, progress)
        if last:
            break
    network.load_state_dict(best)
    network.eval()
    return Training(steps.n_steps, best_step, best_loss)


def train_steps(
    network: NPTNetwork, rows: Rows, params: NPTParams, n_steps: int, planned: int, context: FitContext
) -> None:
    """Train for a number of steps without early-stopping rows, and leave the last weights in the network.

    Args:
        planned: steps over which the schedules run, which may be more.

    Raises:
        torch.OutOfMemoryError: not even `LEAST_BATCH_ROWS` rows fit.
    """
    steps = Steps(network, rows, params, context)
    # Lookahead moves the weights every few steps.
    n_fast = steps.optimizer.n_fast
    n_steps = max(1, round(n_steps / n_fast)) * n_fast
    while steps.n_steps < n_steps and context.seconds_left() > 0:
        steps.run(max(planned, n_steps))
    network.eval()


class Pace:
    """Plans the number of steps within the deadline, after 2, 4, 8, ... steps and at each evaluation. The first step does not
    count, since libraries are loaded in it.

    Args:
        seconds_left: returns the seconds until the deadline.
        n_steps: steps to take if there is time for all.
    """

    def __init__(self, seconds_left: Callable[[], float], n_steps: int) -> None:
        self.n_steps = self._wanted = n_steps
        self._seconds_left = seconds_left
        self._resumed, self._left_after_first = 0, seconds_left()

    def resume(self, step: int, planned: int) -> None:
        """Continue after the steps of a checkpoint."""
        self._resumed, self.n_steps = step, planned

    def after(self, step: int) -> bool:
        """Return True if this step was the last one."""
        n_taken = step - self._resumed
        if n_taken == 1:
            self._left_after_first = self._seconds_left()
        elif n_taken & (n_taken - 1) == 0:
            self.plan(step)
        return step >= self.n_steps or self._seconds_left() <= 0

    def plan(self, step: int) -> None:
        """Limit the planned steps to those that the time allows."""
        left, n_counted = self._seconds_left(), step - self._resumed - 1
        if math.isfinite(left) and n_counted:
            seconds_per_step = (self._left_after_first - left) / n_counted
            affordable = step + max(1, int(SPARE_TIME * left / max(seconds_per_step, 1e-6)))
            self.n_steps = min(self._wanted, affordable)
