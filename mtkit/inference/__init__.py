"""The fast road of translation: whole searches in a library of C code, without torch.

served         the models that it takes; anything else runs as it is written
fast_search    the fast model: beam search, greedy search, sampling, and scores of given targets
search_arrays  the arrays that a search shares with the library
packed_model   a Transformer in the library's structures, from its configuration and weights
packing        weights in the order in which the library reads them
weight_shapes  names, types and shapes of the weights of the models that it takes
compute_type   number formats of the computation
threads        work on several threads
library        loading of the library, which is compiled for several instruction sets when a wheel is made
sources        hashes of the sources that the library is compiled from
structures     the library's structures and functions
prepare        a model that runs as it is written, with a compute type, on a device, and projections in the library
c/             sources of the library
compiled/      the library for each instruction set

Training and validation run the model as it is written. So does `mtkit translate --no-rewrite`, and everything where
there is no library, or with MTKIT_NATIVE=0.
"""
