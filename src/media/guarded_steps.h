// libpng and libjpeg leave by longjmp where something is wrong.
#pragma once

#include <csetjmp>

namespace headway::inline v0::internal {

// Runs a step of a reader, whose handler of errors jumps to reader.leave; false where it did. What the step does
// between here and the jump is skipped without destructors, so that nothing in it may have one: memory belongs to the
// reader.
template <typename Reader>
[[gnu::noinline]] bool completes(Reader& reader, void (*step)(Reader&)) {
  if (setjmp(reader.leave) != 0) return false;
  step(reader);
  return true;
}

}  // namespace headway::inline v0::internal
