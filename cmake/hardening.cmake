# Flags that turn an error of memory into the end of the program before it can be used, for all that is installed. They
# stand here alone; cmake/compiler.cmake has what the code needs, this is what an attacker needs not to find.
include_guard(GLOBAL)
include(CheckCXXCompilerFlag)
include(CheckCXXSourceCompiles)

option(HEADWAY_HARDENING "Build with stack protectors, checked calls of the C and C++ libraries, and read-only symbol tables"
       ON)

add_library(headway_hardening INTERFACE)             # for every source but the kernels
add_library(headway_library_assertions INTERFACE)    # for what reads files and texts: every index is checked
add_library(headway_hardened_link INTERFACE)         # for shared libraries and programs
if(NOT HEADWAY_HARDENING OR HEADWAY_SANITIZE)
  return()
endif()

foreach(flag IN ITEMS -fstack-protector-strong -fstack-clash-protection)
  string(MAKE_C_IDENTIFIER "HEADWAY_HAS${flag}" variable)
  check_cxx_compiler_flag("-Werror ${flag}" ${variable})
  if(${variable})
    target_compile_options(headway_hardening INTERFACE ${flag})
  endif()
endforeach()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  target_compile_options(headway_hardening INTERFACE -fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  target_compile_options(headway_hardening INTERFACE -mbranch-protection=standard)
endif()

# Level 3 also knows sizes that are computed; older compilers and C libraries have level 2. Both need an optimizer.
set(CMAKE_REQUIRED_FLAGS "-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
check_cxx_source_compiles("#include <cstring>
#if !defined(__USE_FORTIFY_LEVEL) || __USE_FORTIFY_LEVEL < 3
#error
#endif
int main() {}" HEADWAY_HAS_FORTIFY_SOURCE_3)
unset(CMAKE_REQUIRED_FLAGS)
set(headway_fortify_level 2)
if(HEADWAY_HAS_FORTIFY_SOURCE_3)
  set(headway_fortify_level 3)
endif()
target_compile_options(headway_hardening INTERFACE
                       "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${headway_fortify_level}>")

target_compile_definitions(headway_library_assertions INTERFACE _GLIBCXX_ASSERTIONS)
target_link_options(headway_hardened_link INTERFACE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
