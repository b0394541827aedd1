"""Tokens: kept as digests, found in constant time, with rights and an end."""

import datetime as dt
import sqlite3

import pytest
from typer.testing import CliRunner

import dpstream as dp
from dpstream.cli.app import app
from dpstream.errors import InvalidArgument, StoreDamaged, StreamUnknown, TokenUnknown
from dpstream.store.tokens import find_token

NOW = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)


@pytest.fixture
def path(tmp_path):
    with dp.Store(tmp_path / "counts.db") as store:
        store.counter("visits", 100, dp.zcdp(0.5))
    return tmp_path / "counts.db"


def test_a_token_is_found_and_its_text_is_nowhere_in_the_files(path):
    with dp.Store(path) as store:
        one = store.tokens.create("shop", ["visits"], expires=NOW)
        other = store.tokens.create("app")
        assert one != other
        shop, app_token = store.tokens.all()
        assert (shop.name, shop.allows("visits"), shop.allows("other")) == ("shop", True, False)
        assert app_token.allows("other")
        assert [shop.expired(NOW - dt.timedelta(seconds=1)), shop.expired(NOW), app_token.expired(NOW)] == [
            False,
            True,
            False,
        ]
        assert find_token(store.tokens.all(), one) == shop
        for wrong in ("", one[:-1], one + "x", one.upper(), "dpst_é\udcff"):
            assert find_token(store.tokens.all(), wrong) is None
    for file in path.parent.iterdir():
        assert one[5:].encode() not in file.read_bytes()
    with dp.Store(path) as store:
        assert find_token(store.tokens.all(), other) == app_token
        store.tokens.revoke("shop")
        assert find_token(store.tokens.all(), one) is None
        with pytest.raises(TokenUnknown, match="no token 'shop'"):
            store.tokens.revoke("shop")


@pytest.mark.parametrize(
    ("name", "more", "error"),
    [
        ("shop", {}, InvalidArgument),
        ("", {}, InvalidArgument),
        ("x" * 201, {}, InvalidArgument),
        ("line\nbreak", {}, InvalidArgument),
        ("new", {"streams": ["nothing"]}, StreamUnknown),
        ("new", {"expires": dt.datetime(2026, 1, 1)}, InvalidArgument),
    ],
)
def test_refused(path, name, more, error):
    with dp.Store(path) as store:
        store.tokens.create("shop")
        before = store.tokens.all()
        with pytest.raises(error):
            store.tokens.create(name, **more)
        assert store.tokens.all() == before


def test_an_edited_list_is_found(path):
    with dp.Store(path) as store:
        store.tokens.create("shop", ["visits"])
    connection = sqlite3.connect(path)
    (sealed,) = connection.execute("SELECT value FROM about WHERE name = 'tokens'").fetchone()
    edited = sealed.replace(b"visits", b"gusits")
    connection.execute("UPDATE about SET value = ? WHERE name = 'tokens'", (edited,))
    connection.commit()
    connection.close()
    with dp.Store(path) as store, pytest.raises(StoreDamaged, match="list of tokens"):
        store.tokens.all()


def test_the_command(path):
    run = CliRunner().invoke
    made = run(app, ["store", "token", str(path), "create", "shop", "--stream", "visits", "--days", "90"])
    assert made.exit_code == 0, made.output
    assert made.stdout.startswith("dpst_")
    assert "not shown again" in made.stderr
    with dp.Store(path) as store:
        assert find_token(store.tokens.all(), made.stdout.strip()).name == "shop"
    assert "shop" in run(app, ["store", "token", str(path)]).stdout
    assert made.stdout.strip() not in run(app, ["store", "token", str(path)]).output
    for bad, words in (
        (["create", "b"], "--stream must be given, or --every-stream instead"),
        (["create", "b", "--stream", "nothing"], "there is no stream 'nothing'"),
        (["create"], "NAME must be given"),
        (["revoke", "b"], "no token 'b'"),
        (["delete", "shop"], "list, create or revoke"),
    ):
        answer = run(app, ["store", "token", str(path), *bad])
        assert answer.exit_code == 2
        assert words in " ".join(answer.stderr.split())
    assert run(app, ["store", "token", str(path), "revoke", "shop"]).exit_code == 0
    assert "There are no tokens" in run(app, ["store", "token", str(path)]).stdout
