"""The native backend of translation: whole searches in a library of C code, without torch.

Training and validation run the reference implementation. So does `mtkit translate --no-rewrite`, and everything where
there is no library, or with MTKIT_NATIVE=0.
"""
