"""Commands of `mtkit`, one module each: read the options, call one library function, print its result.

Modules are imported inside the functions, so that `--help` does not load torch.
"""
