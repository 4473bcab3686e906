"""The command `inspect`, which loads no model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tabapp.cli.completion import bundles
from tabapp.cli.options import trust_option
from tabapp.cli.output import metric_cells
from tabapp.headless.narration import echo, echo_json

if TYPE_CHECKING:
    from tabapp.bundle.contents import Contents


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path), shell_complete=bundles)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
@trust_option
def inspect(bundle: Path, as_json: bool, trust: Path | None) -> int:
    """Show the contents of BUNDLE and verify every checksum, without loading a model."""
    from tabapp.bundle.contents import open_bundle

    contents = open_bundle(bundle, trust=trust)
    if as_json:
        import msgspec

        described = {
            "file": str(bundle),
            "verified": True,
            "signed": contents.is_signed,
            "signed_by": None if trust is None else str(trust),
            "manifest": contents.manifest,
            "schema": contents.schema,
            "ensemble": contents.ensemble,
        }
        echo_json(msgspec.json.format(msgspec.json.encode(described), indent=1))
        return 0
    _print_contents(bundle, contents, trust)
    return 0


def _print_contents(bundle: Path, contents: Contents, trust: Path | None) -> None:
    from tabapp.headless.tables import print_table

    manifest, schema, threshold = contents.manifest, contents.schema, contents.ensemble.threshold
    signature = (
        f"by {trust}"
        if trust is not None
        else "not checked; --trust PUBKEY checks it"
        if contents.is_signed
        else "none"
    )
    facts = [
        ("bundle", f"{bundle} ({bundle.stat().st_size:,} bytes), every checksum verified"),
        ("made by", f"{manifest.created_by}, {manifest.created_at}, Python {manifest.python}, {manifest.platform}"),
        ("signature", signature),
        ("run", manifest.run + (f" ({manifest.name})" if manifest.name else "")),
        ("target", f"{manifest.target} ({manifest.task})"),
        *([("classes", _shortened(manifest.classes))] if manifest.classes else []),
        ("data", ", ".join(f"{key} {value}" for key, value in manifest.data.items())),
        ("validation", manifest.validation),
        *(
            [("threshold", f"{threshold:.6g} on the probability of {schema.classes[1]!r}")]
            if threshold is not None
            else []
        ),
        ("seed", str(manifest.seed)),
        *([("training rows", f"kept in {', '.join(manifest.training_rows_in)}")] if manifest.training_rows_in else []),
        ("libraries", ", ".join(f"{name} {version}" for name, version in manifest.libraries.items())),
    ]
    print_table(["", ""], [list(fact) for fact in facts])
    echo()
    print_table(["metric", "score", "low", "high"], metric_cells(manifest.metrics), right=(1, 2, 3), title="Scores")
    echo()
    print_table(
        ["model", "trial", "weight", "fold models"],
        [[c.model, str(c.trial), f"{c.weight:.3f}", str(len(c.folds))] for c in contents.ensemble.candidates],
        right=(1, 2, 3),
        title="Ensemble",
    )
    echo()
    print_table(
        ["column", "kind", "role", "missing", "distinct"],
        [[c.name, c.kind, c.role, f"{c.missing:,}", f"{c.unique:,}"] for c in schema.columns],
        right=(3, 4),
        title="Schema",
    )
    echo()
    print_table(
        ["member", "kind", "bytes", "sha256"],
        [[m.path, m.kind, f"{m.bytes:,}", m.sha256[:16]] for m in manifest.members],
        right=(2,),
        title="Members",
    )


def _shortened(labels: tuple[str, ...], n_shown: int = 12) -> str:
    more = f" and {len(labels) - n_shown} more" if len(labels) > n_shown else ""
    return ", ".join(repr(label) for label in labels[:n_shown]) + more
