"""The parts of dates as ONNX operators, by integer arithmetic (Hinnant: "chrono-compatible low-level date algorithms")."""

from __future__ import annotations

import numpy as np

from tabapp.bundle.export.onnx_graph import Graph
from tabapp.features.columns import PERIODS, DatetimeStep

DAY, MISSING = 86_400_000_000, -(2**63)
"""Microseconds of a day; the number of a missing date."""
DAYS_TO_1970 = 719_468
"""From 0000-03-01, where the calendar of the algorithm starts."""
MOST_PART = 366
_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


class Dates:
    """The numbers of a `DatetimeStep`. Dates before the year 0 are not supported."""

    def __init__(self, graph: Graph, step: DatetimeStep) -> None:
        self._graph, self._step = graph, step
        self._names = ["", *step.parts]
        moment = graph.moment(step.column)
        self._is_missing = graph.add("Equal", moment, self._integer(MISSING))
        moment = graph.add("Where", self._is_missing, self._integer(0), moment)
        self._moment = graph.add("Add", moment, self._integer(DAYS_TO_1970 * DAY))
        self._day = self._over(self._moment, DAY)
        self._second = self._over(self._less(self._moment, self._times(self._day, DAY)), 1_000_000)
        self._parts: dict[str, str] = {}

    def number(self, place: int) -> str:
        """A number of the step, (rows, 1) double."""
        step, graph = self._step, self._graph
        if place == 0:
            since = self._less(self._moment, self._integer(DAYS_TO_1970 * DAY + step.start))
            return self._known(graph.add("Div", graph.cast(since, "double"), self._double(float(DAY))))
        if place <= len(step.parts):
            return self._known(graph.cast(self._part(step.parts[place - 1]), "double"))
        cycle, axis = divmod(place - 1 - len(step.parts), 2)
        name = step.cycles[cycle]
        # Runtimes compute sines in single precision, which a quantile map would magnify.
        angles = 2 * np.pi * np.arange(MOST_PART + 1) / PERIODS[name]
        table = graph.constant(np.sin(angles) if axis == 0 else np.cos(angles), np.float64)
        return self._known(graph.add("Gather", table, self._part(name)))

    def _known(self, value: str) -> str:
        return self._graph.add("Where", self._is_missing, self._double(float("nan")), value)

    def _part(self, name: str) -> str:
        """(rows, 1) int64."""
        if not self._parts:
            self._parts = self._calendar()
        return self._parts[name]

    def _calendar(self) -> dict[str, str]:
        """All parts by name."""
        era = self._over(self._day, 146_097)
        of_era = self._less(self._day, self._times(era, 146_097))
        corrected = self._plus(
            self._less(self._less(of_era, self._over(of_era, 1460)), self._over(of_era, 146_096)),
            self._over(of_era, 36_524),
        )
        year_of_era = self._over(corrected, 365)
        leap_days = self._less(self._over(year_of_era, 4), self._over(year_of_era, 100))
        of_year = self._less(of_era, self._plus(self._times(year_of_era, 365), leap_days))
        month_index = self._over(self._plus(self._times(of_year, 5), self._integer(2)), 153)
        started = self._over(self._plus(self._times(month_index, 153), self._integer(2)), 5)
        day = self._plus(self._less(of_year, started), self._integer(1))
        # The year of the algorithm starts in March.
        month = self._plus(self._rest(self._plus(month_index, self._integer(2)), 12), self._integer(1))
        is_early = self._graph.cast(self._graph.add("Less", month, self._integer(3)), "int64")
        year = self._plus(self._plus(year_of_era, self._times(era, 400)), is_early)
        months = self._graph.constant(_BEFORE_MONTH, np.int64)
        before = self._graph.add("Gather", months, self._less(month, self._integer(1)))
        is_late = self._less(self._integer(1), is_early)
        of_calendar = self._plus(self._plus(before, day), self._graph.add("Mul", self._is_leap(year), is_late))
        return {
            "year": year,
            "month": month,
            "day": day,
            "weekday": self._plus(self._rest(self._plus(self._day, self._integer(2)), 7), self._integer(1)),
            "day of year": of_calendar,
            "hour": self._over(self._second, 3600),
            "minute": self._rest(self._over(self._second, 60), 60),
            "second": self._rest(self._second, 60),
        }

    def _is_leap(self, year: str) -> str:
        """(rows, 1) 1 in a leap year, else 0."""
        divides = [
            self._graph.cast(self._graph.add("Equal", self._rest(year, n), self._integer(0)), "int64")
            for n in (4, 100, 400)
        ]
        return self._plus(self._less(divides[0], divides[1]), divides[2])

    def _integer(self, value: int) -> str:
        return self._graph.constant(value, np.int64)

    def _double(self, value: float) -> str:
        return self._graph.constant(value, np.float64)

    def _plus(self, a: str, b: str) -> str:
        return self._graph.add("Add", a, b)

    def _less(self, a: str, b: str) -> str:
        return self._graph.add("Sub", a, b)

    def _times(self, value: str, factor: int) -> str:
        return self._graph.add("Mul", value, self._integer(factor))

    def _over(self, value: str, divisor: int) -> str:
        return self._graph.add("Div", value, self._integer(divisor))

    def _rest(self, value: str, divisor: int) -> str:
        return self._graph.add("Mod", value, self._integer(divisor))
