"""`mtkit doctor`: versions, hardware and speed of this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit.cli.options import Format, JsonFile


def doctor(
    no_speed: Annotated[bool, typer.Option("--no-speed", help="Skip the speed test, which takes seconds.")] = False,
    json_file: JsonFile = None,
    form: Format = None,
) -> None:
    """Show versions, hardware, speed and problems of this machine."""
    from mtkit.bench.machine import inspect_machine, machine_table
    from mtkit.cli.printing import print_results

    machine = inspect_machine(measure=not no_speed)
    print_results([machine_table(machine)], form, content=machine.as_dict(), json_file=json_file)
