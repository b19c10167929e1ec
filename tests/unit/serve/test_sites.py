"""Where requests come from: names of the server, pages of other sites, and clients behind proxies."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from mtkit.errors import UsageError
from mtkit.serve.fronts.exchange import Sites
from mtkit.serve.settings import ServerSettings
from tests.toy.sampling import seeds

SEEDS = seeds(20, 200)


def sites(**settings: Any) -> Sites:
    return Sites(ServerSettings(models=[Path("model")], **settings))


def scope_of(headers: dict[str, str], *, method: str = "POST", peer: str = "127.0.0.1") -> dict[str, Any]:
    pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    return {"method": method, "client": (peer, 4000), "scheme": "http", "headers": pairs}


def status(judge: Sites, headers: dict[str, str], *, method: str = "POST", peer: str = "127.0.0.1") -> int:
    scope = scope_of(headers, method=method, peer=peer)
    error = judge.judge(scope, dict(scope["headers"]))
    return 200 if error is None else error.status


def client(judge: Sites, forwarded: str, *, peer: str = "127.0.0.1") -> str:
    scope = scope_of({"host": "localhost", "x-forwarded-for": forwarded}, peer=peer)
    judge.judge(scope, dict(scope["headers"]))
    return str(scope["client"][0])


OWN = ["localhost", "127.0.0.1", "127.9.9.9", "[::1]", "LocalHost", "localhost.", "a.localhost"]
FOREIGN = [
    *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1.nip.io", "evil-localhost"),
    *("192.0.2.7", "0.0.0.0", "[2001:db8::1]", "2130706433", "0x7f.1", "127.1", "xn--loclhost-e0f.example"),
]
INVALID = ["[", "a b", "a/b", "user@localhost", "[::1", "localhost:port", "localhost:", "a:1:2", "[[::1]]", "[evil]"]


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_names_of_a_local_server(method: str) -> None:
    for name, port in itertools.product(OWN, ("", ":5000", ":80")):
        assert status(sites(), {"host": name + port}, method=method) == 200, name
    for name, port in itertools.product(FOREIGN, ("", ":5000")):
        assert status(sites(), {"host": name + port}, method=method) == 421, name
    for name in INVALID:
        assert status(sites(), {"host": name}, method=method) == 400, name
    assert status(sites(), {}, method=method) == 200  # HTTP 1.0


def test_names_of_an_open_server() -> None:
    judge = sites(host="0.0.0.0", without_keys=True, allowed_hosts="mt.example, Other.Example")
    for name in (*OWN, "192.0.2.7:5000", "[2001:db8::1]", "mt", "mt.example", "other.example:80"):
        assert status(judge, {"host": name}) == 200, name
    for name in ("evil.example", "mt.example.evil.example", "a.mt.example"):
        assert status(judge, {"host": name}) == 421, name
    assert status(sites(allowed_hosts="*"), {"host": "any.example"}) == 200


def test_a_name_that_only_a_key_allows_is_in_no_link() -> None:
    judge = sites(host="0.0.0.0", keys=Path("keys"))
    for name, is_kept in (("evil.example", False), ("192.0.2.7:5000", True)):
        scope = scope_of({"host": name, "accept": "*/*"})
        assert judge.judge(scope, dict(scope["headers"])) is None
        assert [key for key, _ in scope["headers"]] == ([b"host", b"accept"] if is_kept else [b"accept"])


@pytest.mark.parametrize("seed", SEEDS)
def test_pages_of_other_sites_do_not_write(seed: int) -> None:
    """Against what a browser sends for a page of each origin; programs send neither header."""
    rng = random.Random(seed)
    host = rng.choice(["localhost:5000", "127.0.0.1:5000", "[::1]:5000"])
    own = rng.choice(["http://", "https://"]) + host
    others = ["http://evil.example", "http://localhost:3000", "https://localhost.evil.example:5000", "null", "file://"]
    others += [f"http://{''.join(rng.choices('abcdefgh', k=9))}.example:{rng.randrange(1, 65536)}", "http://localhost"]
    for origin, method in itertools.product(
        (None, own, own.upper(), *others), ("GET", "HEAD", "POST", "PUT", "DELETE")
    ):
        is_own = origin not in others
        of_site = [None, "same-origin"] if origin and is_own else [None, "none"] if is_own else [None, "cross-site"]
        headers = {"host": host}
        headers |= {} if origin is None else {"origin": origin}
        headers |= {} if (site := rng.choice(of_site)) is None else {"sec-fetch-site": site}
        expected = 200 if is_own or method in ("GET", "HEAD") else 403
        assert status(sites(), headers, method=method) == expected, (headers, method)


@pytest.mark.parametrize("site", ["cross-site", "same-site", "else"])
def test_a_form_without_an_origin_is_judged_by_its_site(site: str) -> None:
    assert status(sites(), {"host": "localhost:5000", "sec-fetch-site": site}) == 403
    assert status(sites(), {"host": "localhost:5000", "sec-fetch-site": site}, method="GET") == 200


def test_sites_that_may_write() -> None:
    judge = sites(allowed_hosts="app.example")
    for origin in ("https://app.example", "http://app.example:8080", "moz-extension://1b2c", "chrome-extension://abc"):
        headers = {"host": "localhost:5000", "origin": origin, "sec-fetch-site": "cross-site"}
        assert status(judge, headers) == 200, origin
    behind = {"host": "127.0.0.1:5000", "origin": "https://mt.example", "sec-fetch-site": "same-origin"}
    assert status(judge, behind) == 200  # a page of this server, behind a proxy that names the server by its address


def test_clients_behind_a_proxy_of_this_machine() -> None:
    judge = sites()
    assert client(judge, "192.0.2.7") == "192.0.2.7"
    assert client(judge, "198.51.100.1, 192.0.2.7:3456") == "192.0.2.7"
    assert client(judge, "198.51.100.1, 127.0.0.1") == "127.0.0.1"  # what a client of this machine pretends
    assert client(judge, "anything") == "127.0.0.1"
    assert client(judge, "") == "127.0.0.1"
    assert client(judge, "[2001:db8:1:2:3:4:5:6]:80") == client(judge, "2001:db8:1:2::9") == "2001:db8:1:2::/64"
    assert client(judge, "192.0.2.7", peer="203.0.113.9") == "203.0.113.9"  # no proxy
    assert client(sites(trusted_proxies=""), "192.0.2.7") == "127.0.0.1"
    chain = sites(trusted_proxies="127.0.0.1, 10.0.0.0/8")
    assert client(chain, "198.51.100.1, 192.0.2.7, 10.1.2.3") == "192.0.2.7"
    assert client(sites(trusted_proxies="*"), "192.0.2.7", peer="203.0.113.9") == "192.0.2.7"


def test_a_named_proxy_chooses_the_host_and_a_page_that_pretends_one_does_not() -> None:
    headers = {"host": "mt.example", "x-forwarded-for": "192.0.2.7"}
    assert status(sites(), headers) == 421
    assert status(sites(trusted_proxies="127.0.0.1"), headers) == 200
    assert status(sites(trusted_proxies="127.0.0.1"), {"host": "mt.example"}) == 421
    assert status(sites(trusted_proxies="10.0.0.1"), headers) == 421


def test_proxies_that_are_none() -> None:
    with pytest.raises(UsageError, match="--trusted-proxies: 'proxy'"):
        ServerSettings(models=[Path("model")], trusted_proxies="proxy")
