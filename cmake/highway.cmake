# Google Highway, headers only: dispatch is Headway's own, so nothing of libhwy is linked.

if(CMAKE_CROSSCOMPILING)
  # The headers are the same on every architecture. Only their directory goes on the include path, since the rest of the
  # build machine's /usr/include must not.
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/highway)
  file(CREATE_LINK /usr/include/hwy ${PROJECT_BINARY_DIR}/highway/hwy SYMBOLIC)
  set(HEADWAY_HIGHWAY_INCLUDE_DIR ${PROJECT_BINARY_DIR}/highway CACHE PATH "Directory that holds hwy/highway.h")
endif()

find_path(HEADWAY_HIGHWAY_INCLUDE_DIR hwy/highway.h REQUIRED)
add_library(headway_highway INTERFACE)
target_include_directories(headway_highway SYSTEM INTERFACE ${HEADWAY_HIGHWAY_INCLUDE_DIR})
# Highway's own assertions, which sanitizer builds would turn on, call into libhwy.
target_compile_definitions(headway_highway INTERFACE HWY_IS_DEBUG_BUILD=0)
