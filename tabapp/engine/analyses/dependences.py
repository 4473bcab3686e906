"""What the engine adds to the importances while time is left: correlated groups, conditional importances, interactions and
attention maps.
"""

from __future__ import annotations

from tabapp.engine.analyses.importances import MOST_ROWS
from tabapp.engine.fit.candidates import Candidate
from tabapp.engine.loop.fold_models import FoldModels
from tabapp.explain.attention import column_maps
from tabapp.explain.dependence import association_matrix, groups_of, strata_of
from tabapp.explain.evaluation import rounded, sample_rows, with_rounded
from tabapp.explain.interactions import interactions
from tabapp.explain.permutation import permutation_importance
from tabapp.run.analyses.attention import AttentionMap, AttentionReady
from tabapp.run.analyses.dependence import ConditionalImportance, DependenceReady, GroupImportance
from tabapp.run.analyses.interactions import InteractionsReady
from tabapp.run.record import events as ev
from tabapp.run.record.importance_notes import ranked as ranked_rows

MOST_ASSOCIATED = 100
"""Columns whose association with each other is computed: the most important ones."""
MOST_CONDITIONAL = 12
MOST_INTERACTING = 6
REPEATS = 5
INTERACTION_ROWS = 200


def find_dependence(
    models: FoldModels,
    candidate: Candidate,
    importances: ev.ImportancesReady,
    deadline: float | None,
) -> DependenceReady | None:
    """Groups of correlated columns, permuted together, and the conditional importance of the most important columns.

    Args:
        candidate: the model of the importances.
        deadline: `time.monotonic()` after which no further shuffle starts.
    """
    data, plan = models.data, models.plan
    ranked = [row.feature for row in ranked_rows(importances.rows)]
    columns = [data.schema.column(name) for name in ranked[:MOST_ASSOCIATED]]
    names = [column.name for column in columns]
    sample = data.scored.at(sample_rows(len(data.scored), MOST_ROWS, plan.seed))
    association = association_matrix(columns, sample.of(data.frame))
    groups = groups_of(names, association)
    chosen = [
        row.feature for row in importances.rows if row.permutation > 0 and not row.unstable and row.feature in names
    ]
    chosen = sorted(chosen, key=ranked.index)[:MOST_CONDITIONAL]
    within = strata_of(columns, association, data.frame, chosen)
    if not groups and not within:
        return None
    folds = models.with_held_out(candidate, deadline)
    n_jobs = plan.workers * plan.n_threads
    together = permutation_importance(
        folds, plan.metric, groups, seed=plan.seed, n_repeats=REPEATS, n_jobs=n_jobs, max_rows=MOST_ROWS, deadline=deadline
    )  # fmt: skip
    apart = permutation_importance(
        folds, plan.metric, list(within), seed=plan.seed, n_repeats=REPEATS, n_jobs=n_jobs, max_rows=MOST_ROWS,
        deadline=deadline, within=within,
    )  # fmt: skip
    measured = {each.column: each for each in together.columns}
    return DependenceReady(
        model=candidate.model,
        trial=candidate.trial,
        identity=candidate.identity,
        groups=tuple(
            GroupImportance(
                columns=group, permutation=found.mean, low=found.low, high=found.high, unstable=found.unstable
            )
            for group in groups
            if (found := measured.get(" + ".join(group))) is not None
        ),
        conditional=tuple(
            ConditionalImportance(
                feature=each.column, permutation=each.mean, low=each.low, high=each.high, unstable=each.unstable
            )
            for each in apart.columns
        ),
    )


def find_interactions(
    models: FoldModels,
    candidate: Candidate,
    importances: ev.ImportancesReady,
    deadline: float | None,
) -> InteractionsReady | None:
    """H-statistics of the most important columns; None with fewer than two."""
    rows = ranked_rows(importances.rows)
    columns = [row.feature for row in rows if row.permutation > 0 and not row.unstable][:MOST_INTERACTING]
    if len(columns) < 2:
        return None
    classes = models.data.schema.classes
    code = max(0, len(classes) - 1)
    folds = models.with_typed_rows(candidate, INTERACTION_ROWS, deadline)
    found = interactions(folds, columns, code, seed=models.plan.seed, deadline=deadline)
    if not found:
        return None
    return InteractionsReady(
        model=candidate.model,
        trial=candidate.trial,
        identity=candidate.identity,
        label=classes[code] if classes else "",
        columns=tuple(columns),
        pairs=with_rounded(tuple(found)),
    )


def find_attention(models: FoldModels, candidate: Candidate) -> AttentionReady | None:
    """Attention maps of a candidate; None if it has none."""
    columns = [column.name for column in models.data.schema.inputs]
    maps, n_rows = column_maps(models.with_held_out(candidate), columns, seed=models.plan.seed)
    if not maps:
        return None
    return AttentionReady(
        model=candidate.model,
        trial=candidate.trial,
        identity=candidate.identity,
        n_rows=n_rows,
        maps=tuple(
            AttentionMap(
                title=each.title,
                queries=each.queries,
                keys=each.keys,
                chance=tuple(map(rounded, each.chance.tolist())),
                heads=tuple(tuple(tuple(map(rounded, row)) for row in head) for head in each.heads.tolist()),
                spread=tuple(tuple(map(rounded, row)) for row in each.spread.tolist()),
                kind=each.kind,
            )
            for each in maps
        ),
    )
