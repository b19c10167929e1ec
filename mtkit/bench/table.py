"""The figures of a benchmark for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from mtkit.bench.grid import Figures

_SETTING = ("engine", "numbers", "beam", "batch", "workers", "shortlist")
_MEASURED = ("lines/s", "tokens/s", "p50 ms", "p95 ms", "MiB", "BLEU")


def bench_table(rows: Sequence[Figures]) -> Table:
    """One row for each setting; one that an engine refused has no figures."""
    table = Table()
    for name in _SETTING:
        table.add_column(name, no_wrap=True)
    for name in _MEASURED:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        setting = row.setting
        cells = (
            setting.engine,
            row.computed_with or setting.compute_type,
            str(setting.beam_size),
            "default" if setting.batch_tokens is None else f"{setting.batch_tokens:,}",
            f"{setting.workers} × {setting.threads_each}",
            "yes" if setting.shortlist else "",
        )
        table.add_row(*cells, *(_figures(row) if row.refused is None else ["–"] * len(_MEASURED)))
    return table


def refusals(rows: Sequence[Figures]) -> list[str]:
    """Each different reason for which a setting has no figures."""
    return list(dict.fromkeys(f"{row.setting.engine}: {row.refused}" for row in rows if row.refused is not None))


def _figures(row: Figures) -> list[str]:
    return [
        f"{row.sentences_per_second:,.1f}",
        f"{row.tokens_per_second:,.0f}",
        f"{row.latency_p50:,.1f}",
        f"{row.latency_p95:,.1f}",
        f"{row.memory:,.0f}",
        "" if row.bleu is None else f"{row.bleu:.2f}",
    ]
