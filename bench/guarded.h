// Errors across a C interface: a code for the caller, and the text of the last one on this thread.
#pragma once

#include <exception>
#include <string>

inline thread_local std::string last_error;

// Runs the body: 0, or -1 and last_error where it throws.
template <typename Body>
int guarded(const Body& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return -1;
  }
}
