"""A fit to start, alone or with others in one stacked network."""

from __future__ import annotations

from dataclasses import dataclass

from tabapp.engine.fit.candidates import Candidate

Fold = tuple[str, int, int]
"""Model, trial and fold of a fit."""


@dataclass(frozen=True)
class Work:
    """A fit to start.

    Attributes:
        others: further fits that are trained in the same stacked network: of other folds of the candidate, or of the same fold of
            other candidates.
        seed: number of the seed, from 0; above 0 for a model of the final ensemble that is averaged over several.
        gpu: the GPU that it starts on; None for a fit on the CPU, or as long as none is chosen.
        reason: why it starts now, as a clause for people about its model or its candidate.
    """

    candidate: Candidate
    fold: int
    others: tuple[tuple[Candidate, int], ...] = ()
    seed: int = 0
    gpu: str | None = None
    reason: str = ""

    @property
    def fits(self) -> tuple[tuple[Candidate, int], ...]:
        """All fits: candidates and folds."""
        return (self.candidate, self.fold), *self.others

    @property
    def candidates(self) -> list[Candidate]:
        """The candidates of all fits, each once."""
        return list({candidate.key: candidate for candidate, _ in self.fits}.values())

    @property
    def device(self) -> str:
        """The device that it runs on."""
        return self.gpu or self.candidate.device
