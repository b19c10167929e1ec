"""Counts, sizes and durations in sentences for the user."""

from __future__ import annotations


def count_of(number: int, noun: str) -> str:
    """Return a number with its noun: "1 pair", "1,234 pairs"; the noun takes -s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """Format a duration in the largest unit of which it has at least two, or in seconds."""
    if seconds < 1:
        return "less than a second"
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return count_of(round(seconds), "second")


def about_duration(seconds: float) -> str:
    """Return a duration as an estimate: "about 3 hours", or "less than a second"."""
    return format_duration(seconds) if seconds < 1 else f"about {format_duration(seconds)}"


def format_clock(seconds: float) -> str:
    """Seconds as minutes or hours: 90 -> 1:30, 3700 -> 1:01:40."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_bytes(size: float) -> str:
    """Format a size in gigabytes or megabytes."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"
