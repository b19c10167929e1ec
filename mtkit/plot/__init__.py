"""Figures as PNG files; needs the extra [plot]."""
