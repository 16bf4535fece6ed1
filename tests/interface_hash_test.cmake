# Usage: cmake -DROOT=<sources> -DWORK=<directory> -P interface_hash_test.cmake
# Changes headers in a copy of the sources: those of the interface change its hash, others do not.
cmake_minimum_required(VERSION 3.25)
include(${ROOT}/cmake/interface_hash.cmake)

file(REMOVE_RECURSE ${WORK})
foreach(folder IN ITEMS src/base src/backend src/core src/cpu include/headway)
  file(COPY ${ROOT}/${folder}/ DESTINATION ${WORK}/${folder} FILES_MATCHING PATTERN "*.h")
endforeach()
headway_interface_hash(${ROOT} original headers)
headway_interface_hash(${WORK} copied headers)
if(NOT original STREQUAL copied)
  message(FATAL_ERROR "the hash depends on where the sources are: ${original} and ${copied}")
endif()

# expect_change(FILE WANTED): whether a line more in FILE gives another hash.
function(expect_change file wanted)
  headway_interface_hash(${WORK} before headers)
  file(APPEND ${WORK}/${file} "// one line more\n")
  headway_interface_hash(${WORK} after headers)
  set(changed TRUE)
  if(before STREQUAL after)
    set(changed FALSE)
  endif()
  if(NOT changed STREQUAL wanted)
    message(FATAL_ERROR "${file}: the hash changed: ${changed}, expected ${wanted}")
  endif()
endfunction()

expect_change(src/backend/backend.h TRUE)
expect_change(src/backend/matmul_problem.h TRUE)
expect_change(src/core/device_memory.h TRUE)
expect_change(include/headway/dtype.h TRUE)  # by way of others
expect_change(include/headway/transport.h TRUE)
expect_change(src/base/mpi_library.h TRUE)
expect_change(src/cpu/backend.h FALSE)
file(WRITE ${WORK}/src/backend/fresh_tasks.h "#pragma once\n")
expect_change(src/backend/fresh_tasks.h TRUE)
message(STATUS "interface: ${original}")
