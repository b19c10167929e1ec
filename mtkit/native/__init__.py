"""The native library: its C sources, and their loading."""
