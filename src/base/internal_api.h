// Symbols that the libraries of one build share with each other and nobody else: they are visible in the binary, and no
// installed header names them.
#pragma once

#define HEADWAY_INTERNAL_API [[gnu::visibility("default")]]
