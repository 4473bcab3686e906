"""Hyperparameters of NPT: Kossen et al. 2021, appendix C.1."""

from __future__ import annotations

from tabapp.models.contract import Params

from .network import Attention


class NPTParams(Params, frozen=True, kw_only=True):
    """Appendix C.1; the defaults are NPT-Base.

    Attributes:
        d_embedding: size of each attribute's embedding, a multiple of n_heads.
        n_layers: number of layers, which alternate between attention across rows and across attributes; must be even.
        n_heads: attention heads of both types of layers.
        dropout: dropout rate of attention probabilities, hidden layers, embeddings and outputs.
        normalize_keys: apply layer normalization to the inputs of keys and values too (equation 4); False follows the
            authors' code.
        attention: "both" kinds of layers, or an ablation: "rows" leaves the layers between attributes out (appendix B.5), and
            with "attributes" each row attends to itself only.
        learning_rate: learning rate of LAMB.
        flat: share of the steps before the learning rate is annealed.
        cycles: number of cosine cycles of the learning rate instead (appendix C.1.2); 0 for flat, then annealed.
        warmup: share of the steps in which the learning rate rises from 0, before it falls to 0 as a polynomial of `decay_power`
            (appendix C.1.3, for Forest Cover); 0 for flat, then annealed. The paper does not give the power.
        n_steps: training steps.
        batch_rows: maximum rows per training step; with all rows, each step uses the whole table.
        feature_masking, target_masking: probability of masking a known entry of a feature or of the target. With a target
            masking of 1, the model never sees targets of other rows.
        max_gradient: maximum absolute value of each gradient element.
        n_evaluations: number of evaluations on the early-stopping rows.
        context_rows: maximum number of rows that a prediction attends to.
        n_contexts: number of sampled contexts whose predictions are averaged, if there are more rows than context_rows.
        unlabeled: unlabeled training rows for each labeled one.
        feature_weight: constant weight of the loss of features, from 0 to 1; the targets have the rest. None decreases it from 1
            to 0 along a cosine (section 2.6).
        also_predict: names of features that are additional targets: always predicted in training and evaluation, hidden in
            predictions.
        other_targets: learn the other targets of the run as well, as the paper does with several targets: the known ones are masked
            and shown in training and in the context, and hidden in the rows to predict.
    """

    d_embedding: int = 64
    n_layers: int = 8
    n_heads: int = 8
    dropout: float = 0.1
    normalize_keys: bool = True
    attention: Attention = "both"
    learning_rate: float = 1e-3
    flat: float = 0.7
    cycles: int = 0
    warmup: float = 0.0
    decay_power: float = 1.0
    n_steps: int = 10_000
    batch_rows: int = 2048
    feature_masking: float = 0.15
    target_masking: float = 0.5
    max_gradient: float = 1.0
    n_evaluations: int = 40
    context_rows: int = 4096
    n_contexts: int = 4
    unlabeled: float = 0.0
    feature_weight: float | None = None
    also_predict: tuple[str, ...] = ()
    other_targets: bool = False
