# Flags that every translation unit of Headway is built with.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(HEADWAY_CCACHE ccache)
  if(HEADWAY_CCACHE)
    # The first setting caches what uses precompiled headers; the second compares headers to the letter, as a precompiled
    # header does, not without their comments; the others let several checkouts share what is cached. Under sanitizers,
    # which name lines and not folders, that holds with debugging information too.
    set(headway_ccache CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1 CCACHE_BASEDIR=${PROJECT_SOURCE_DIR})
    if(HEADWAY_SANITIZE)
      list(APPEND headway_ccache CCACHE_NOHASHDIR=1)
    endif()
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${headway_ccache} ${HEADWAY_CCACHE})
  endif()
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(HEADWAY_SANITIZE)
  add_compile_options(-fsanitize=${HEADWAY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HEADWAY_SANITIZE})
endif()

add_library(headway_warnings INTERFACE)
target_compile_options(headway_warnings INTERFACE -Wall -Wextra)

# For the libraries and the program but not their kernels, in which C++ computes 16-bit numbers as int. clang counts
# conversions as losing that GCC does not.
add_library(headway_strict_warnings INTERFACE)
target_compile_options(headway_strict_warnings INTERFACE
                       $<$<CXX_COMPILER_ID:GNU>:-Wconversion -Wsign-conversion>)

# What the library's own sources need: hidden symbols, both include roots, the architecture's name. -ffp-contract=off
# keeps a*b+c as written, so that results do not depend on what a compiler happens to fuse.
add_library(headway_build_flags INTERFACE)
target_link_libraries(headway_build_flags INTERFACE headway_warnings)
target_compile_options(headway_build_flags INTERFACE -fvisibility=hidden -fvisibility-inlines-hidden
                                                     -fno-math-errno -ffp-contract=off)
target_include_directories(headway_build_flags INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)

# Inner loops without optimisation are too slow to test; with sanitizers and -O3 they are too slow to compile.
set(headway_kernel_level -O3)
if(HEADWAY_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(headway_kernel_level -O1)
endif()
set(HEADWAY_KERNEL_OPTIONS ${headway_kernel_level} CACHE STRING "Options that the inner loops are compiled with")

# headway_stays_loaded(LIBRARY) keeps a shared library in memory after dlclose(): the threads of the pool never end.
function(headway_stays_loaded library)
  get_target_property(type ${library} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    target_link_options(${library} PRIVATE -Wl,-z,nodelete)
  endif()
endfunction()
