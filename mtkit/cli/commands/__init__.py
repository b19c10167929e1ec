"""Commands of `mtkit`, one module each: read the options, call one library function, print its result.

Folders are the sections of `mtkit --help`. Modules of the library are imported inside the functions, so that `--help`
does not load torch.
"""
