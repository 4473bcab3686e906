"""Networks as their papers have them, for `--models NAME:PRESET`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from tabapp.models.contract import Shape, Task, Trial
from tabapp.models.presets import Preset

from .amformer.plugin import AMFormer
from .ft_transformer import FTTransformer, FTTransformerParams, projection_for
from .npt.plugin import NPT, NPTParams, Size, sized


class PublishedFTTransformer(Preset, FTTransformer):
    """The default of Gorishniy et al. 2021 (Table 15) on every device; on a CPU, an epoch takes long."""

    name = "ft_transformer:paper"
    title = "FT-Transformer (paper)"

    def defaults(self, task: Task, shape: Shape, device: str) -> FTTransformerParams:
        """Table 15."""
        return FTTransformerParams(projection=projection_for(shape))


class ScaledFTTransformer(Preset, FTTransformer):
    """FT-Transformer with the sizes and dropout rates of a number of layers (Gorishniy et al. 2021, supplement C.2), which alone is
    tuned.
    """

    name = "ft_transformer:scaled"
    title = "FT-Transformer (scaled)"

    def defaults(self, task: Task, shape: Shape, device: str) -> FTTransformerParams:
        """Three layers, as in the paper."""
        return self._with(3, shape)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> FTTransformerParams:
        """One to six layers."""
        return self._with(trial.suggest_int("n_layers", 1, 6), shape)

    def _with(self, n_layers: int, shape: Shape) -> FTTransformerParams:
        return msgspec.structs.replace(FTTransformerParams.scaled(n_layers), projection=projection_for(shape))


class FTTransformerWithoutBiases(Preset, FTTransformer):
    """FT-Transformer without biases of the feature tokens, the ablation of section 4.2 (Table 3) of Gorishniy et al. 2021."""

    name = "ft_transformer:no-bias"
    title = "FT-Transformer (no biases)"
    fixed: ClassVar[Mapping[str, Any]] = {"token_bias": False}


class PostNormFTTransformer(Preset, FTTransformer):
    """FT-Transformer with normalizations after the branches, the PostNorm variant of Gorishniy et al. 2021 (supplement C.1).

    NOTE[DIFF]: the supplement adds that the variant usually needs a warm-up of the learning rate; here it trains like the others.
    """

    name = "ft_transformer:postnorm"
    title = "FT-Transformer (PostNorm)"
    fixed: ClassVar[Mapping[str, Any]] = {"normalization": "post"}


SMALL_VARIANTS: dict[str, dict[str, Any]] = {
    "base": {},
    "16 layers": {"n_layers": 16},
    "16 heads": {"n_heads": 16},
    "16 layers and heads": {"n_layers": 16, "n_heads": 16},
    "target masking 0.1": {"target_masking": 0.1},
    "target masking 0.5": {"target_masking": 0.5},
    "feature masking 0.2": {"feature_masking": 0.2},
    "two cycles": {"cycles": 2},
}
"""What the small data sweep of NPT changes of NPT-Small (Kossen et al. 2021, appendix C.1.2)."""


class _SizedNPT(Preset, NPT):
    size: ClassVar[Size] = "base"
    max_rows = 20_000_000

    def defaults(self, task: Task, shape: Shape, device: str) -> NPTParams:
        return sized(self.size, shape.n_features + 1)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> NPTParams:
        """The paper tunes no configuration of this size, so that only the masking rates of appendix C.1.2 are drawn."""
        return sized(
            self.size,
            shape.n_features + 1,
            target_masking=trial.suggest_categorical("target_masking", [0.1, 0.5, 1.0]),
            feature_masking=trial.suggest_categorical("feature_masking", [0.15, 0.2]),
        )


class NPTBase(_SizedNPT):
    """NPT-Base of Kossen et al. 2021 (appendix C.1.1) on every device and as large tables as Higgs; on a CPU, a fit takes hours."""

    name = "npt:base"
    title = "NPT (base)"


class NPTSmall(_SizedNPT):
    """NPT-Small of Kossen et al. 2021 (appendix C.1.2) on every device: without target masking, and tuned among its eight variants.

    NOTE[DIFF]: the paper trains for 2,000 to 10,000 steps, and for more with target masking; here it is 4,000 on every table.
    """

    name = "npt:small"
    title = "NPT (small)"
    size: ClassVar[Size] = "small"

    def defaults(self, task: Task, shape: Shape, device: str) -> NPTParams:
        return sized("small", shape.n_features + 1, target_masking=1.0)

    def search_space(self, trial: Trial, task: Task, shape: Shape, device: str) -> NPTParams:
        """The eight variants of the sweep on small data."""
        variant = trial.suggest_categorical("variant", list(SMALL_VARIANTS))
        return msgspec.structs.replace(self.defaults(task, shape, device), **SMALL_VARIANTS[variant])


class AdditiveAMFormer(Preset, AMFormer):
    """AMFormer with additive attention only, an ablation of Cheng et al. 2024 (Table 3)."""

    name = "amformer:additive"
    title = "AMFormer (additive)"
    fixed: ClassVar[Mapping[str, Any]] = {"streams": "additive"}


class MultiplicativeAMFormer(Preset, AMFormer):
    """AMFormer with multiplicative attention only, an ablation of Cheng et al. 2024 (Table 3)."""

    name = "amformer:multiplicative"
    title = "AMFormer (multiplicative)"
    fixed: ClassVar[Mapping[str, Any]] = {"streams": "multiplicative"}


class AMFormerOnAutoInt(Preset, AMFormer):
    """AMF-A of Cheng et al. 2024: the arithmetic blocks in AutoInt, with the token size of Table 7."""

    name = "amformer:autoint"
    title = "AMFormer (AutoInt)"
    fixed: ClassVar[Mapping[str, Any]] = {"backbone": "autoint", "d_token": 32}
