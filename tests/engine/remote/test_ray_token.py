"""The token of a Ray cluster; these tests need no Ray."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tabapp.engine.remote.ray_cluster import MODE, TOKEN, TOKEN_BYTES, TOKEN_FILE, prepare_token


def prepared(environment: dict[str, str], *, is_own: bool) -> dict[str, str]:
    changed = dict(environment)
    prepare_token(changed, is_own=is_own)
    return changed


def test_a_cluster_of_ones_own_gets_a_new_token() -> None:
    tokens = [prepared({}, is_own=True)[TOKEN] for _ in range(2)]
    assert tokens[0] != tokens[1]
    assert {len(token) for token in tokens} == {2 * TOKEN_BYTES}
    assert TOKEN in prepared({MODE: "token"}, is_own=True)


@pytest.mark.parametrize("chosen", [{TOKEN: "mine"}, {TOKEN_FILE: "/mine"}, {MODE: "disabled"}])
def test_what_the_user_chooses_is_kept(chosen: dict[str, str]) -> None:
    assert prepared(chosen, is_own=True) == chosen
    assert prepared(chosen, is_own=False) == ({MODE: "token", **chosen})


def test_the_token_of_the_user_is_sent_to_a_cluster_and_none_is_made_up() -> None:
    assert prepared({}, is_own=False) == {}
    assert prepared({TOKEN: "mine"}, is_own=False) == {TOKEN: "mine", MODE: "token"}


def test_versions_of_ray_without_authentication_are_not_installed() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    (needed,) = project["optional-dependencies"]["ray"]
    name, _, version = needed.partition(">=")
    assert name == "ray"
    assert tuple(map(int, version.split("."))) >= (2, 60)
