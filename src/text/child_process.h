// Work in a process of its own, for libraries that end the process where memory runs out.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace headway::inline v0::internal {

// What `work` returns, computed in a copy of this process; an Error, or out of memory, comes back too. Where the copy
// is ended by a signal or by an exception that nobody catches, as one in a thread of a library, that is an Error that
// begins with `who`.
std::string run_in_child(const std::function<std::string()>& work, std::string_view who);

}  // namespace headway::inline v0::internal
