# nlohmann-json, headers only: src/io reads and writes JSON with it, and no public header knows of it.

if(CMAKE_CROSSCOMPILING)
  # As for Highway: this one directory of the build machine's /usr/include, and nothing else of it.
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/json)
  file(CREATE_LINK /usr/include/nlohmann ${PROJECT_BINARY_DIR}/json/nlohmann SYMBOLIC)
  set(HEADWAY_JSON_INCLUDE_DIR ${PROJECT_BINARY_DIR}/json CACHE PATH "Directory that holds nlohmann/json.hpp")
endif()

find_path(HEADWAY_JSON_INCLUDE_DIR nlohmann/json.hpp REQUIRED)
add_library(headway_json INTERFACE)
target_include_directories(headway_json SYSTEM INTERFACE ${HEADWAY_JSON_INCLUDE_DIR})
