// A library that was built with other headers than libheadway: it must be refused before anything of it is called.
#include <cstdlib>

#include "backend/cuda_library.h"

extern "C" HEADWAY_API const char* headway_cuda_interface() { return "0123456789abcdef"; }

extern "C" HEADWAY_API void headway_cuda_devices(headway::internal::DeviceList*) { std::abort(); }
