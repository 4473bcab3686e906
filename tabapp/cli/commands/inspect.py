"""The command `inspect`, which loads no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tabapp.cli.completion import bundles
from tabapp.cli.options import trust_option
from tabapp.cli.output import metric_cells
from tabapp.headless.narration import echo, echo_json

if TYPE_CHECKING:
    from tabapp.bundle.files.contents import Contents


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path), shell_complete=bundles)
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
@trust_option
def inspect(bundle: Path, as_json: bool, trust: Path | None) -> int:
    """Show the contents of BUNDLE and verify every checksum, without loading a model."""
    from tabapp.bundle.files.contents import open_bundle
    from tabapp.bundle.files.targets import target_files
    from tabapp.protections import offered, warn_about

    warn_about(offered())
    with target_files(bundle, trust=trust) as files:
        if files[0].target is not None:
            each = [open_bundle(file.path) for file in files]
            _show_targets(bundle, each, trust, as_json=as_json)
            return 0
    contents = open_bundle(bundle, trust=trust)
    if as_json:
        described: dict[str, object] = {
            "file": str(bundle),
            "verified": True,
            "signed": contents.is_signed,
            "signed_by": None if trust is None else str(trust),
            **_records(contents),
        }
        _echo_records(described)
        return 0
    _print_contents(bundle, contents, _signature(contents.is_signed, trust))
    return 0


def _show_targets(bundle: Path, each: list[Contents], trust: Path | None, *, as_json: bool) -> None:
    """Show the contents of a bundle of several targets: those of the bundle of each."""
    from tabapp.bundle.files.archive import open_any

    with open_any(bundle, trust=trust) as archive:
        archive.verify()
        is_signed = archive.signature is not None
        manifest = archive.manifest
    if as_json:
        targets = [_records(contents) for contents in each]
        described: dict[str, object] = {
            "file": str(bundle),
            "verified": True,
            "signed": is_signed,
            "signed_by": None if trust is None else str(trust),
            "manifest": manifest,
            "targets": targets,
        }
        _echo_records(described)
        return
    for number, contents in enumerate(each, start=1):
        echo(f"Target {number} of {len(each)}: {contents.manifest.target}")
        echo()
        _print_contents(bundle, contents, _signature(is_signed, trust))
        echo()


def _records(contents: Contents) -> dict[str, object]:
    return {"manifest": contents.manifest, "schema": contents.schema, "ensemble": contents.ensemble}


def _echo_records(described: dict[str, object]) -> None:
    import msgspec

    echo_json(msgspec.json.format(msgspec.json.encode(described), indent=1))


def _signature(is_signed: bool, trust: Path | None) -> str:
    if trust is not None:
        return f"by {trust}"
    return "not checked; --trust PUBKEY checks it" if is_signed else "none"


def _print_contents(bundle: Path, contents: Contents, signature: str) -> None:
    from tabapp.headless.tables import print_table

    manifest, schema, threshold = contents.manifest, contents.schema, contents.ensemble.threshold
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
        *(
            (f"weights of {each.model}", f"{each.weights.name}, {each.weights.license}, SHA-256 {each.weights.sha256}")
            for each in manifest.pretrained
        ),
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
    facts = _facts(manifest.leaderboard, {candidate.model for candidate in contents.ensemble.candidates})
    if facts:
        print_table(["model", "fact", "value"], facts, title="Reported by the fitted models")
        echo()
    print_table(
        ["column", "kind", "role", "missing", "distinct"],
        [[c.name, c.kind, c.role, f"{c.missing:,}", f"{c.unique:,}"] for c in schema.columns_of_file],
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


def _facts(leaderboard: Sequence[Mapping[str, Any]], members: set[str]) -> list[list[str]]:
    """What the fitted models of the members of the ensemble report about themselves."""
    from tabapp.run.texts.model_summary import summary_rows

    rows = [row for row in leaderboard if row.get("model") in members]
    return [[str(row["model"]), name, text] for row in rows for name, text in summary_rows(row.get("summary"))]
