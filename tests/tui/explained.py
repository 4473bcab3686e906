"""An explainer process that gives the same answers at once."""

from __future__ import annotations

from pathlib import Path

from tabapp.run.protocol import row_requests as messages
from tabapp.tui.session.row_explanation import ExplainerClient

CELLS = {
    "age": "39", "workclass": "Private", "education-num": "13", "marital-status": "Married-civ-spouse",
    "capital-gain": "0", "hours-per-week": "45", "native-country": None,
}  # fmt: skip
CONTRIBUTIONS = {
    "age": 0.062, "workclass": 0.0021, "education-num": 0.151, "marital-status": 0.2087, "capital-gain": -0.0413,
    "hours-per-week": 0.0264, "native-country": -0.0005,
}  # fmt: skip
BASE = 0.24


class CannedClient(ExplainerClient):
    """Answers every request about any row; changed columns contribute nothing."""

    def __init__(
        self,
        bundle: Path = Path("b.tabapp"),
        data: Path = Path("new.csv"),
        *,
        fill: bool = False,
        trust: Path | None = None,
        training: Path | None = None,
    ) -> None:
        super().__init__(bundle, data, fill=fill, trust=trust, training=training)

    async def ask(self, request):
        changed = [name for name, cell in request.values.items() if cell != CELLS[name]]
        contributions = {**CONTRIBUTIONS, **dict.fromkeys(changed, 0.0)}
        output = BASE + sum(contributions.values())
        match request:
            case messages.PredictRow():
                return messages.RowPredicted(prediction=">50K", probabilities={"<=50K": 1 - output, ">50K": output})
            case messages.ExplainRow():
                return messages.RowExplained(
                    label=">50K",
                    prediction=">50K",
                    base=BASE,
                    output=output,
                    cells={**CELLS, **request.values},
                    contributions=contributions,
                    errors=dict.fromkeys(contributions, 0.0042),
                    neighbors=[
                        messages.NeighborRow(row=811, weight=0.21, target=">50K", cells=CELLS),
                        messages.NeighborRow(row=20144, weight=0.12, target="<=50K", cells={**CELLS, "age": "41"}),
                    ],
                )
            case messages.DrawCurve():
                numbers = request.column in ("age", "education-num", "capital-gain", "hours-per-week")
                places = [17.0 + 3 * step for step in range(25)] if numbers else []
                outputs = [0.2 + 0.55 * (1 - (place - 52) ** 2 / 1400) for place in places] or [0.65, 0.41, 0.38]
                return messages.CurveDrawn(
                    column=request.column,
                    label=">50K",
                    places=places,
                    labels=[] if numbers else ["Married-civ-spouse", "Never-married", "Divorced"],
                    outputs=outputs,
                    current={**CELLS, **request.values}[request.column],
                )
            case messages.FindChanges():
                free = "age" if "marital-status" in request.fixed else "marital-status"
                value = {"age": "17", "marital-status": "Divorced"}[free]
                change = messages.FoundChange(values={free: value}, prediction="<=50K", output=0.61)
                return messages.ChangesFound(changes=[change])
