"""Pages of results, and curves as files, which need the extra [plot]."""
