"""Settings of the server."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from mtkit.errors import UsageError
from mtkit.inference.support import ComputeType

LOOPBACK = "127.0.0.0/8,::1"
ALL = "0.0.0.0/0,::/0"


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Models and limits of a server.

    Attributes:
        models: model folders or run folders; the first one of a direction is its default.
        adapters: folders of adapters by name, each of one of the models.
        host, port: address to listen at; port 0 is a free one.
        root_path: path below which a proxy serves this server, such as /translate.
        trusted_proxies: addresses and networks whose X-Forwarded-For and -Proto are believed, comma-separated, `*` for
            all. Those that are named may also choose the header Host. None: this machine's.
        allowed_hosts: further names of the server, and of sites whose pages may write to it, comma-separated; `*`: any.
        keys: file of API keys, one a line; None: no key is needed.
        without_keys: whether another address than this machine's is served without keys.
        workers: processes of each model that translate.
        search: overrides of the models' search.
        compute_type, device: as `load_translator`.
        max_memory: bytes of all models together; the ones that were not used for longest are unloaded. 0: no bound.
        max_characters: of the texts of a request.
        max_file_bytes: of a document.
        max_requests: of a client in a minute; None: any number.
        max_waiting: characters that wait for a worker; more requests get status 503.
        timeout: seconds of a request.
        cache_bytes: of the cache of translations.
        suggestions: TMX file that takes suggestions; None: there are none.
        log: what is written for each request: nothing, a line without texts, or the texts too.
    """

    models: Sequence[Path]
    adapters: Mapping[str, Path] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 5000
    root_path: str = ""
    trusted_proxies: str | None = None
    allowed_hosts: str = ""
    keys: Path | None = None
    without_keys: bool = False
    workers: int = 1
    search: Sequence[str] = ()
    compute_type: ComputeType = "auto"
    device: str | None = None
    max_memory: int = 0
    max_characters: int = 100_000
    max_file_bytes: int = 16 << 20
    max_requests: int | None = None
    max_waiting: int = 400_000
    timeout: float = 60.0
    cache_bytes: int = 64 << 20
    suggestions: Path | None = None
    log: Literal["errors", "requests", "texts"] = "errors"

    def __post_init__(self) -> None:
        if not self.models:
            raise UsageError("serve: no model is given")
        if not is_local(self.host) and self.keys is None and not self.without_keys:
            raise UsageError(
                f"serve: --host {self.host} is open to other machines; give --keys FILE, or --no-keys for no keys"
            )
        if self.root_path and (not self.root_path.startswith("/") or self.root_path.endswith("/")):
            raise UsageError(f"serve: --root-path {self.root_path}: begins with / and does not end with one")
        self.proxy_networks()

    def proxy_networks(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        """The networks of `trusted_proxies`.

        Raises:
            UsageError: one is neither an address nor a network.
        """
        proxies = LOOPBACK if self.trusted_proxies is None else self.trusted_proxies.replace("*", ALL)
        try:
            return [ipaddress.ip_network(each.strip()) for each in proxies.split(",") if each.strip()]
        except ValueError as error:
            raise UsageError(f"serve: --trusted-proxies: {error}; give addresses or networks") from error


def is_local(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
