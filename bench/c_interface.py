"""Opening the libraries with a C interface that the benchmarks on a GPU build."""

import ctypes


def load_library(path, prefix, calls, named_calls=()):
    """A library whose functions PREFIX_NAME are typed: `calls` take one pointer, `named_calls` a pointer, a name and a
    buffer; PREFIX_create returns a pointer and PREFIX_error the reason of a failure."""
    library = ctypes.CDLL(str(path.resolve()))
    getattr(library, f"{prefix}_create").restype = ctypes.c_void_p
    getattr(library, f"{prefix}_error").restype = ctypes.c_char_p
    for name in calls:
        getattr(library, f"{prefix}_{name}").argtypes = [ctypes.c_void_p]
    for name in named_calls:
        getattr(library, f"{prefix}_{name}").argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return library
