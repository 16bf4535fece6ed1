// The processor's hint that a loop is waiting.
#pragma once

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace headway::inline v0::internal {

// Lets the other hardware thread of the core run, and saves power.
inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace headway::inline v0::internal
