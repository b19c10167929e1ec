"""`mtkit doctor`: versions, hardware and speed of this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.cli.options import JsonFile


def doctor(
    no_speed: Annotated[bool, typer.Option("--no-speed", help="Skip the speed test, which takes seconds.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Show versions, hardware, speed and problems of this machine."""
    from mtkit.bench.machine import describe_machine, inspect_machine
    from mtkit.cli.printing import print_lines
    from mtkit.io.files import write_json

    machine = inspect_machine(measure=not no_speed)
    print_lines(describe_machine(machine))
    if json_file is not None:
        write_json(json_file, machine.as_dict())
