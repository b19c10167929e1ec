"""Server of translations, `mtkit serve`: an application over HTTP, and processes that translate."""
