# libheadway_cuda.so: the operations on NVIDIA GPUs, loaded by libheadway.so on first use. `make cuda` asks for it; what
# builds everything else leaves it out.
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")  # CMake before 3.26 does not know that nvcc has it
endif()
if(HEADWAY_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${HEADWAY_CCACHE})
endif()

file(GLOB headway_cuda_sources CONFIGURE_DEPENDS src/cuda/*.cu src/cuda/*.cpp)
if(HEADWAY_SHARED)  # a static libheadway brings the hash with it
  list(APPEND headway_cuda_sources ${headway_interface_source})
endif()
add_library(headway_cuda SHARED EXCLUDE_FROM_ALL ${headway_cuda_sources})
set_target_properties(headway_cuda PROPERTIES
  VERSION ${PROJECT_VERSION} SOVERSION 0
  CUDA_ARCHITECTURES OFF CUDA_RUNTIME_LIBRARY Static
  CUDA_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
target_compile_options(headway_cuda PRIVATE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>
  $<$<COMPILE_LANGUAGE:CUDA>:-O3 --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra -Xptxas=-v>)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
  target_compile_options(headway_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)  # a fifth of the size
endif()
target_include_directories(headway_cuda PRIVATE include src)
target_link_libraries(headway_cuda PRIVATE headway headway_hardened_link CUDA::cudart_static ${CMAKE_DL_LIBS})
target_link_options(headway_cuda PRIVATE -Wl,--no-undefined)
headway_stays_loaded(headway_cuda)

# The tuned kernels use instructions that Hopper alone has; everything else runs from Ampere on. It is compiled once, to
# PTX, which the driver of a GPU without code of its own here compiles on first use and keeps.
set(HEADWAY_CUDA_ARCHITECTURES "90" CACHE STRING "GPUs that have machine code of their own in libheadway_cuda, as 80;90")
set(headway_cuda_code "compute_80")
set(headway_step_code_80 "compute_80")
set(headway_step_code_90 "compute_90")
foreach(architecture IN LISTS HEADWAY_CUDA_ARCHITECTURES)
  string(PREPEND headway_cuda_code "sm_${architecture},")
  if(architecture LESS 90)
    string(PREPEND headway_step_code_80 "sm_${architecture},")
  else()
    string(PREPEND headway_step_code_90 "sm_${architecture},")
  endif()
endforeach()
foreach(source IN LISTS headway_cuda_sources)
  if(source MATCHES "/hopper_[^/]*\\.cu$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-gencode;arch=compute_90a,code=sm_90a")
  elseif(source MATCHES "/step_product\\.cu$")  # bulk copies
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
      "-gencode;arch=compute_90,code=[${headway_step_code_90}]")
  elseif(source MATCHES "/step_[^/]*\\.cu$")
    # From Hopper on a kernel of a step starts while the one before it still runs: such code is compiled apart.
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
      "-gencode;arch=compute_80,code=[${headway_step_code_80}];-gencode;arch=compute_90,code=[${headway_step_code_90}]")
  elseif(source MATCHES "\\.cu$")
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
      "-gencode;arch=compute_80,code=[${headway_cuda_code}]")
  endif()
endforeach()

if(HEADWAY_INSTALL)
  install(TARGETS headway_cuda OPTIONAL)
endif()
