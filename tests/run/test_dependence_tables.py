"""Tables of attention maps."""

from __future__ import annotations

from tabapp.run.record import events as ev
from tabapp.run.record.state import RunState
from tabapp.run.texts.dependence_tables import attention_tables


def test_attention_of_one_query_is_a_column_sorted_by_its_ratio_to_chance():
    found = ev.AttentionMapView(
        title="layer 2",
        queries=("[CLS]",),
        keys=("a", "b", "c", "other"),
        chance=(0.1, 0.1, 0.01, 0.79),
        heads=(((0.1, 0.3, 0.11, 0.49),), ((0.0, 0.2, 0.11, 0.69),)),
        spread=((0.0, 0.0, 0.0, 0.0),),
    )
    (table,) = attention_tables(ev.AttentionReady(model="ft_transformer", n_rows=10, maps=(found,)), RunState())
    assert table.header == ("from [CLS] to", "attention")
    assert table.rows == (("c", "11.0"), ("b", "2.5"), ("other", "0.7"), ("a", "0.5"))
