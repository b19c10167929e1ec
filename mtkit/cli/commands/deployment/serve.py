"""`mtkit serve`: translate for other programs over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mtkit.cli.options import MAX_THREADS, ComputeTypeOption, Device, parse_adapters
from mtkit.errors import MissingExtraError, UsageError


def serve(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model folders or run folders.")],
    host: Annotated[str, typer.Option("--host", help="Address to listen at; others than this machine's need keys.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Port; 0 is a free one.")] = 5000,
    keys: Annotated[Path | None, typer.Option("--keys", metavar="FILE", help="API keys, one a line.")] = None,
    no_keys: Annotated[bool, typer.Option("--no-keys", help="Serve other machines without keys.")] = False,
    adapter: Annotated[
        list[str] | None,
        typer.Option("--adapter", metavar="NAME=FOLDER", help="Adapter of a model, one more of its name (repeatable)."),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Override a search setting (repeatable).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=MAX_THREADS, help="Processes of a model (default: cores).")
    ] = None,
    compute_type: ComputeTypeOption = "auto",
    device: Device = None,
    max_memory: Annotated[
        float, typer.Option("--max-memory", metavar="GB", min=0, help="Memory of all models; 0 has no bound.")
    ] = 0,
    max_characters: Annotated[int, typer.Option("--max-characters", min=1, help="Characters of a request.")] = 100_000,
    max_file: Annotated[float, typer.Option("--max-file", metavar="MB", min=0.01, help="Size of a document.")] = 16,
    max_requests: Annotated[
        int | None, typer.Option("--max-requests", min=1, help="Requests of a client in a minute (default: any).")
    ] = None,
    max_waiting: Annotated[
        int, typer.Option("--max-waiting", min=1, help="Characters in the queue; more get status 503.")
    ] = 400_000,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Time of a request.")] = 60,
    cache: Annotated[float, typer.Option("--cache", metavar="MB", min=0, help="Cache of translations.")] = 64,
    root_path: Annotated[
        str, typer.Option("--root-path", metavar="PATH", help="Path below which a proxy serves, such as /mt.")
    ] = "",
    trusted_proxies: Annotated[
        str | None,
        typer.Option("--trusted-proxies", metavar="ADDRESSES", help="Whose forwarded headers count."),
    ] = None,
    allowed_hosts: Annotated[
        str, typer.Option("--allowed-hosts", metavar="NAMES", help="Names of the server, and sites that may write.")
    ] = "",
    suggestions: Annotated[
        Path | None, typer.Option("--suggestions", metavar="FILE", help="TMX that takes suggestions of users.")
    ] = None,
    log: Annotated[
        Literal["errors", "requests", "texts"], typer.Option("--log", help="What is logged; texts are private.")
    ] = "errors",
) -> None:
    """Translate over HTTP for other programs.

    Programs that speak LibreTranslate's or DeepL's interface use the server as it is.
    Models of several directions are joined, also through a third language. SIGTERM ends the server when it has answered
    what it has accepted; SIGHUP exchanges models whose folders have changed.
    """
    from mtkit.cli.printing import print_notes
    from mtkit.hardware import available_cores

    try:
        from mtkit.serve.server import serve as serve_models
    except ModuleNotFoundError as error:
        raise MissingExtraError("serve", str(error.name)) from error
    from mtkit.serve.settings import ServerSettings

    adapters = parse_adapters("serve", adapter or [])
    if "" in adapters:
        raise UsageError(f"serve: --adapter {adapters['']}: requests choose it by a name; give NAME=FOLDER")
    server = ServerSettings(
        models=models,
        adapters=adapters,
        host=host,
        port=port,
        keys=keys,
        without_keys=no_keys,
        search=settings or [],
        workers=workers or available_cores(),
        compute_type=compute_type,
        device=device,
        max_memory=int(max_memory * 1e9),
        max_characters=max_characters,
        max_file_bytes=int(max_file * 1e6),
        max_requests=max_requests,
        max_waiting=max_waiting,
        timeout=timeout,
        cache_bytes=int(cache * 1e6),
        root_path=root_path,
        trusted_proxies=trusted_proxies,
        allowed_hosts=allowed_hosts,
        suggestions=suggestions,
        log=log,
    )
    serve_models(server, lambda line: print_notes([f"serve: {line}"]))
