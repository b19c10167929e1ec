"""The native library: encoder, decoder and search in C, compiled for several instruction sets.

The sources in `c/` are compiled when a wheel is made (hatch_build.py), into the folder `compiled/`. Without a library,
or with MTKIT_NATIVE=0, everything runs as it is written.

library      loading of the library
sources      hashes of the sources that the library is compiled from
structures   the library's structures and functions
projections  projections of torch modules, for models that run as they are written
"""
