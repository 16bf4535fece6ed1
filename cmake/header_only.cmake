# Libraries of which only headers are used: Google Highway and nlohmann-json.

# headway_add_headers(TARGET HEADER) makes an interface target of the system's directory that holds HEADER, as in
# hwy/highway.h; HEADWAY_<TARGET>_INCLUDE_DIR may name another one.
function(headway_add_headers target header)
  string(TOUPPER ${target} variable)
  set(variable ${variable}_INCLUDE_DIR)
  cmake_path(GET header PARENT_PATH folder)
  if(CMAKE_CROSSCOMPILING)
    # The headers are the same on every architecture. Only their directory goes on the include path, since the rest of
    # the build machine's /usr/include must not.
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/${target})
    file(CREATE_LINK /usr/include/${folder} ${PROJECT_BINARY_DIR}/${target}/${folder} SYMBOLIC)
    set(${variable} ${PROJECT_BINARY_DIR}/${target} CACHE PATH "Directory that holds ${header}")
  endif()
  find_path(${variable} ${header} REQUIRED)
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${variable}})
endfunction()

# Highway: dispatch is Headway's own, so nothing of libhwy is linked. Its own assertions, which sanitizer builds would
# turn on, call into libhwy.
headway_add_headers(headway_highway hwy/highway.h)
target_compile_definitions(headway_highway INTERFACE HWY_IS_DEBUG_BUILD=0)

# JSON: src/io reads and writes it, and no public header knows of it.
headway_add_headers(headway_json nlohmann/json.hpp)
