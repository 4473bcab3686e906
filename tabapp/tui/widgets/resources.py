"""CPU, memory and GPU use of the run."""

from __future__ import annotations

from tabapp import charts
from tabapp.run.record import events as ev
from tabapp.tui.content import Content
from tabapp.tui.parts.panel import Panel
from tabapp.tui.viewmodels.texts import MUTED, gibibytes

SHOWN = 30


class ResourceUse(Panel[tuple[ev.Resources, ...]]):
    """CPU and memory over the last minutes, scaled to their maximum, and the same for a GPU."""

    def draw(self, facts: tuple[ev.Resources, ...], width: int, height: int) -> list[Content]:
        if not facts:
            return [Content.styled("Nothing measured yet.", MUTED)]
        facts, last = facts[-SHOWN:], facts[-1]
        half = (width - 3) // 2
        most, largest = max(100.0, *(use.cpu_percent for use in facts)), max(use.memory for use in facts)
        processor = _meter("CPU", [use.cpu_percent / most for use in facts], f"{last.cpu_percent:.0f}%", half)
        memory = [use.memory / largest if largest else 0.0 for use in facts]
        text = f"{gibibytes(last.memory)}/{gibibytes(last.memory_total)}G"
        lines = [Content("   ").join([processor, _meter("RAM", memory, text, half)])]
        if last.gpu_percent is not None and last.gpu_memory is not None and last.gpu_memory_total:
            percents = [(use.gpu_percent or 0.0) / 100 for use in facts]
            memories = [(use.gpu_memory or 0) / (use.gpu_memory_total or 1) for use in facts]
            text = f"{gibibytes(last.gpu_memory)}/{gibibytes(last.gpu_memory_total)}G"
            gpu = _meter("GPU", percents, f"{last.gpu_percent:.0f}%", half)
            lines.append(Content("   ").join([gpu, _meter("VRAM", memories, text, half)]))
        return lines


def _meter(name: str, shares: list[float], text: str, width: int) -> Content:
    room = max(1, width - len(name) - len(text) - 2)
    # The newest measurements are at the right; the scale stays while older ones leave at the left.
    spark = charts.sparkline(shares[-room:], room, 0.0, 1.0).rjust(room)
    return Content.assemble((name, MUTED), " ", (spark, "$primary"), " ", text)
