// Symbols that only the libraries of one build share: they are visible in the binary, and no installed header declares
// them.
#pragma once

#define HEADWAY_INTERNAL_API [[gnu::visibility("default")]]
