"""Consistency of packages, entry points, license, versions and documents."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from importlib.metadata import entry_points, metadata, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import tabapp
from tabapp.models import registry

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_version_is_the_same_everywhere():
    assert version("tabapp") == tabapp.__version__
    assert f"## [{tabapp.__version__}]" in (ROOT / "CHANGELOG.md").read_text()


def test_all_packages_are_installed():
    listed = set(PROJECT["tool"]["setuptools"]["packages"])
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in sources("tabapp", "plugins")
        if path.name == "__init__.py"
    }  # fmt: skip
    # `package-dir` installs plugins/ as tabapp_plugins.
    assert listed == {re.sub(r"^plugins\b", "tabapp_plugins", name) for name in found} | {"tabapp_assets"}


def test_models_register_under_the_names_that_scripts_use():
    registered = {point.name: point.value for point in entry_points(group=registry.GROUP)}
    assert registered == PROJECT["project"]["entry-points"][registry.GROUP]
    assert {"xgboost", "catboost", "lightgbm", "mlp", "resnet", "ft_transformer"} <= set(registered)
    for name in registered:
        plugin = registry.find(name).plugin
        assert plugin is not None
        assert plugin.name == name


def test_license_is_complete_apache_text():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text.splitlines()[0]
    assert "Version 2.0, January 2004" in text
    for clause in range(1, 10):
        assert re.search(rf"^   {clause}\. ", text, re.MULTILINE)
    assert "END OF TERMS AND CONDITIONS" in text
    assert metadata("tabapp")["License-Expression"] == "Apache-2.0"


def constraints() -> dict[str, Version]:
    pins: dict[str, Version] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, pin = line.partition("==")
            pins[re.sub(r"[-_.]+", "-", name).lower()] = Version(pin)
    return pins


def requirements() -> list[Requirement]:
    project = PROJECT["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("requirement", requirements(), ids=lambda requirement: requirement.name)
def test_tested_versions_meet_the_requirements(requirement):
    pinned = constraints()[re.sub(r"[-_.]+", "-", requirement.name).lower()]
    assert pinned in requirement.specifier


def test_torch_range_is_unchanged():
    torch = next(requirement for requirement in requirements() if requirement.name == "torch")
    assert str(torch.specifier) in {">=2.6,<2.14", "<2.14,>=2.6"}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_in_documents_exist(document):
    text = (ROOT / document).read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (ROOT / target).exists(), target


def test_tests_named_in_the_architecture_exist():
    rows = [line for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines() if "`tests/" in line]
    assert len(rows) > 10
    for row in rows:
        file = None
        for name in re.findall(r"`([^`]*test_[^`]*)`", row.rpartition("|")[0].rpartition("|")[2]):
            path, _, function = name.rpartition("::") if "::" in name else (("", "", name) if file else (name, "", ""))
            file = ROOT / path if path else file
            assert file is not None
            assert file.is_file(), row
            assert not function or re.search(rf"^(async )?def {function}\(", file.read_text(), re.MULTILINE), function


def test_the_architecture_names_every_room():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = [path.parent.relative_to(ROOT / "tabapp").parts for path in (ROOT / "tabapp").glob("**/__init__.py")]
    unnamed = [room for room in rooms if room and f"{room[-1]}/" not in text]
    assert unnamed == []


def test_the_changelog_of_a_release_is_short():
    for release in re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]:
        assert len(release.split()) <= 300, release.splitlines()[0]


def test_readme_is_short_and_counts_the_models():
    text = (ROOT / "README.md").read_text()
    assert len(text.split()) <= 1000
    assert f"{len(registry.names())} models" in text


def test_commands_in_the_readme_exist():
    from tabapp.cli.main import COMMANDS

    text = (ROOT / "README.md").read_text()
    for name in COMMANDS:
        assert name == "run" or re.search(rf"\b{name}\b", text), name
    for target in re.findall(r"^make ([a-z-]+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
    for module in re.findall(r"python -m ((?:benchmarks|papers)[.\w]+)", text):
        assert (ROOT / (module.replace(".", "/") + ".py")).is_file(), module


def test_the_product_its_tests_and_the_demo_need_no_benchmark():
    pattern = re.compile(r"^\s*(?:from|import) (?:benchmarks|papers)\b", re.MULTILINE)
    users = [path for path in sources("tabapp", "plugins", "tests", "tools") if pattern.search(path.read_text())]
    assert users == []
    demo = (ROOT / "Makefile").read_text().partition("\ndemo:")[2].partition("\n\n")[0]
    assert "benchmarks" not in demo


def test_length_of_source_files():
    long = {
        str(path.relative_to(ROOT)): n
        for path in sources("tabapp", "plugins")
        if (n := len(path.read_text().splitlines())) > 450
    }  # fmt: skip
    assert long == {}


@pytest.mark.parametrize("path", sources("tabapp", "plugins"), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_serialization_that_can_execute_code(path):
    """Code that reads or writes run folders or bundles uses no form of pickle."""
    tree = ast.parse(path.read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name.split(".")[0] for name in names} & {
        "pickle",
        "cPickle",
        "dill",
        "cloudpickle",
        "shelve",
        "marshal",
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called == "torch.load" and path.name == "weights_reader.py":
                # Files of weights, which the confined process reads without code.
                assert ast.unparse(node).endswith("weights_only=True)")
                continue
            assert called not in {"torch.save", "torch.load", "joblib.dump", "joblib.load", "eval", "exec"}, called
            keywords = {keyword.arg: keyword.value for keyword in node.keywords}
            allowed = keywords.get("allow_pickle")
            assert not (isinstance(allowed, ast.Constant) and allowed.value is True), called
            if called.endswith("np.load"):
                assert isinstance(allowed, ast.Constant), "np.load must have allow_pickle=False"


def test_committed_files_contain_no_local_paths():
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    places = re.compile(r"(?<![\w.])/(home|Users|root|work|tmp/v)/\w")
    for name in done.stdout.splitlines():
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".tcss"} and path.is_file():
            assert not places.search(path.read_text()), name
