"""What a plugin states about the pre-trained weights that it needs."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tabapp.task import Task

BRANCH = "main"
"""The revision whose content its authors may replace."""


@dataclass(frozen=True)
class Pretrained:
    """A file of pre-trained weights: published by others, or made for tabapp and installed with it.

    Attributes:
        name: identifier of the file, such as "kumo-small-classifier": letters, digits and hyphens.
        group: what a user fetches at once, such as "kumo-small".
        tasks: tasks that the network with these weights can predict.
        repository, revision: where it is published on the Hugging Face Hub, and the version: a tag or commit, or `BRANCH` where
            the authors name none. Empty for weights that come with tabapp.
        files: names in the repository; the first has the weights, a second one the configuration of the network.
        license: SPDX identifier or name of the license of the weights.
        license_url: where the license can be read.
        n_parameters: number of parameters.
    """

    name: str
    group: str
    tasks: tuple[Task, ...]
    repository: str
    revision: str
    files: tuple[str, ...]
    license: str
    license_url: str
    n_parameters: int

    @property
    def n_bytes(self) -> int:
        """Size of the weights in single precision."""
        return 4 * self.n_parameters

    @property
    def is_pinned(self) -> bool:
        """Whether the revision names one version of the file."""
        return self.revision != BRANCH

    @property
    def command(self) -> str:
        """The command that installs the weights."""
        return f"tabapp weights fetch {self.group}"


class UsedWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The installed weights that a saved model refers to.

    Attributes:
        name: as in `Pretrained`.
        sha256, n_bytes: of the installed safetensors file.
        license: license of the weights.
    """

    name: str
    sha256: str
    n_bytes: int
    license: str
