"""Origin of a request: its client behind a proxy, the name by which it reached the server, and its site.

A page of another site can make a browser send requests to a server of this machine or network: a form, whose Origin is
that site's, or requests to its own name after that name was changed to mean this address (DNS rebinding), which are in
the header Host. Browsers state both truthfully; programs send no Origin.
"""

from __future__ import annotations

import functools
import ipaddress
import re
import socket
from collections.abc import Mapping

from starlette.types import Scope

from mtkit.serve.request_error import RequestError
from mtkit.serve.settings import ServerSettings, is_local

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/?#@\[\]\\]+?)\.?)(?::\d{1,5})?")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(.+)", re.IGNORECASE)
_READING = ("GET", "HEAD", "OPTIONS")  # methods that change nothing
CLIENT_BITS = 64  # of an address of IPv6, the rest of which one client chooses as it likes


class Sites:
    """The names and proxies of a server, by which requests are judged."""

    def __init__(self, settings: ServerSettings) -> None:
        self._networks, self._believes_host = settings.proxy_networks(), settings.trusted_proxies is not None
        self._is_open = not is_local(settings.host)
        self._allowed = {name.strip().lower() for name in settings.allowed_hosts.split(",") if name.strip()}
        self._names = {*self._allowed, settings.host.lower(), "localhost"}
        if self._is_open:
            self._names.add(socket.gethostname().lower())
        self._takes_any_name = "*" in self._allowed or (self._is_open and settings.keys is not None)
        self._client = functools.lru_cache(4096)(_client)
        self._is_own = functools.lru_cache(4096)(self._find_own)
        self._is_trusted = functools.lru_cache(4096)(self._find_trust)

    def _find_trust(self, address: str) -> bool:
        ip = _ip(address)
        return ip is not None and any(ip in network for network in self._networks)

    def judge(self, scope: Scope, headers: Mapping[bytes, bytes]) -> RequestError | None:
        """The error of a request that is not answered; others get their client behind the proxy.

        Of a name that is only accepted because a key is needed, the header is taken away, so that no link has it.
        """
        address = scope["client"][0] if scope["client"] else ""
        is_proxied = self._is_trusted(address) and b"x-forwarded-for" in headers
        if is_proxied:
            values = b",".join(value for name, value in scope["headers"] if name == b"x-forwarded-for")
            address = self._client_before(values.decode("latin-1").split(",")) or address
            if headers.get(b"x-forwarded-proto") in (b"http", b"https"):
                scope["scheme"] = headers[b"x-forwarded-proto"].decode()
        scope["client"] = (self._client(address), 0)
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_own(host) and not (is_proxied and self._believes_host):
            if (name := _name(host)) is None:
                return RequestError(400, "Host: the name of a host is expected")
            if not self._takes_any_name:
                hint = "--allowed-hosts of mtkit serve adds names"
                return RequestError(421, f"Host: {name[:80]!r} is no name of this server; {hint}")
            scope["headers"] = [each for each in scope["headers"] if each[0] != b"host"]
        return None if scope["method"] in _READING else self._judge_origin(headers, host)

    def _judge_origin(self, headers: Mapping[bytes, bytes], host: str) -> RequestError | None:
        """The error of a request that a page of another site sends; None of a page of this server, or of a program."""
        site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin", b"").decode("latin-1")
        match = _ORIGIN.fullmatch(origin)
        if site is None and (not origin or (match and match[2].lower() == host.lower())):
            return None
        if site in (b"same-origin", b"none"):
            return None
        if match and (match[1].lower().endswith("-extension") or _name(match[2]) in self._allowed):
            return None
        hint = "--allowed-hosts of mtkit serve adds sites"
        return RequestError(403, f"Origin: {origin[:80]!r} is another site, which may not write here; {hint}")

    def _find_own(self, host: str) -> bool:
        """Return whether no other site can have a name: that of the server, an address, or one without a domain."""
        if not host:  # as in HTTP 1.0
            return True
        if (name := _name(host)) is None:
            return False
        if (ip := _ip(name)) is not None:
            return self._is_open or ip.is_loopback or name in self._names
        return name in self._names or name.endswith(".localhost") or (self._is_open and "." not in name)

    def _client_before(self, addresses: list[str]) -> str | None:
        """The address that the first trusted proxy has seen; None if it is no address.

        Proxies add addresses at the end. Before an address of this machine nothing is believed: any client of a proxy
        on this machine may have written it.
        """
        for each in reversed(addresses):
            name = _name(each.strip()) or each.strip()
            ip = _ip(name)
            if ip is None:
                return None
            if ip.is_loopback or not self._is_trusted(name):
                return str(ip)
        return str(ip)


def _name(host: str) -> str | None:
    """The name or address of a host without its port; None if it is none."""
    match = _HOST.fullmatch(host)
    return None if match is None else (match[1] or match[2]).lower()


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return None
    return ip.ipv4_mapped or ip if isinstance(ip, ipaddress.IPv6Address) else ip


def _client(address: str) -> str:
    """The name of the client at an address: the network of an address of IPv6."""
    ip = _ip(address)
    if isinstance(ip, ipaddress.IPv6Address) and not ip.is_loopback:
        return str(ipaddress.ip_network((ip, CLIENT_BITS), strict=False))
    return address if ip is None else str(ip)
