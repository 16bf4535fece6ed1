# libheadway_mpi.so: MPI as an engine of the communicators, opened by libheadway.so when a program first asks for it. It
# is built where an MPI is found and links none of Headway's libraries, so it fits shared and static ones alike.
set(HEADWAY_BUILD_MPI "AUTO" CACHE STRING "Build libheadway_mpi: ON, OFF, or AUTO: where an MPI library is found")
set_property(CACHE HEADWAY_BUILD_MPI PROPERTY STRINGS AUTO ON OFF)
if(HEADWAY_BUILD_MPI STREQUAL "AUTO" AND (CMAKE_CROSSCOMPILING OR HEADWAY_SANITIZE OR NOT PROJECT_IS_TOP_LEVEL))
  return()  # another machine's MPI is not there, and MPI itself leaks memory
endif()
if(NOT HEADWAY_BUILD_MPI)
  return()
endif()

enable_language(C)  # for CMake's search
set(MPI_CXX_SKIP_MPICXX ON)
if(HEADWAY_BUILD_MPI STREQUAL "AUTO")
  find_package(MPI QUIET COMPONENTS C)
else()
  find_package(MPI REQUIRED COMPONENTS C)
endif()
if(NOT MPI_C_FOUND)
  message(STATUS "libheadway_mpi is left out: no MPI library (Debian and Ubuntu: libopenmpi-dev openmpi-bin)")
  return()
endif()

file(GLOB headway_mpi_sources CONFIGURE_DEPENDS src/mpi/*.cpp)
list(APPEND headway_mpi_sources src/dist/transport.cpp)
add_library(headway_mpi SHARED ${headway_mpi_sources} ${headway_interface_source})
set_target_properties(headway_mpi PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 UNITY_BUILD ON
                                             UNITY_BUILD_BATCH_SIZE 0)
target_link_libraries(headway_mpi PRIVATE headway_build_flags headway_hardening headway_library_assertions
                                          headway_strict_warnings headway_hardened_link Threads::Threads)
# The headers alone are MPI's own business where it comes to warnings.
target_include_directories(headway_mpi SYSTEM PRIVATE ${MPI_C_INCLUDE_DIRS})
target_link_libraries(headway_mpi PRIVATE ${MPI_C_LIBRARIES})
target_compile_definitions(headway_mpi PRIVATE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
target_link_options(headway_mpi PRIVATE -Wl,--no-undefined)
headway_stays_loaded(headway_mpi)
if(HEADWAY_INSTALL)
  install(TARGETS headway_mpi)
endif()

# The other MPI of Debian, where it is installed: compiled once, for its headers.
find_program(HEADWAY_MPICH_COMPILER mpicxx.mpich)
if(HEADWAY_MPICH_COMPILER AND HEADWAY_BUILD_TESTS)
  execute_process(COMMAND ${HEADWAY_MPICH_COMPILER} -show OUTPUT_VARIABLE headway_mpich_line ERROR_QUIET)
  string(REGEX MATCHALL "-I[^ \n]+" headway_mpich_folders "${headway_mpich_line}")
  list(TRANSFORM headway_mpich_folders REPLACE "^-I" "")
  add_library(headway_mpi_with_mpich OBJECT ${headway_mpi_sources})
  set_target_properties(headway_mpi_with_mpich PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  target_link_libraries(headway_mpi_with_mpich PRIVATE headway_build_flags headway_strict_warnings)
  target_include_directories(headway_mpi_with_mpich SYSTEM PRIVATE ${headway_mpich_folders})
  target_compile_definitions(headway_mpi_with_mpich PRIVATE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
endif()
