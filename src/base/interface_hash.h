// By what the libraries of one build know each other.
#pragma once

namespace headway::inline v0::internal {

// A hash of the headers through which the libraries call each other, written by cmake/interface_hash.cmake. Virtual
// functions and struct members are found by their offsets, so only libraries with the same hash fit together.
extern const char* const kInterfaceHash;

}  // namespace headway::inline v0::internal
