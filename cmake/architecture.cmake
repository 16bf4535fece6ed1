# The processor family and the instruction sets that kernels are compiled for, the plainest first.

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(headway_known_sets sse4 avx2 avx512 avx512_bf16)
  target_compile_definitions(headway_build_flags INTERFACE HEADWAY_X86=1)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(headway_known_sets neon)
  target_compile_definitions(headway_build_flags INTERFACE HEADWAY_ARM64=1)
else()
  message(FATAL_ERROR "Headway has no kernels for ${CMAKE_SYSTEM_PROCESSOR}: x86-64 and 64-bit ARM are supported")
endif()

# Kernels are half of what there is to compile: a build for one machine, or for a check that does not look at them, may
# do with fewer.
set(HEADWAY_INSTRUCTION_SETS ${headway_known_sets} CACHE STRING "Instruction sets that kernels are compiled for")
foreach(isa IN LISTS HEADWAY_INSTRUCTION_SETS)
  if(NOT isa IN_LIST headway_known_sets)
    message(FATAL_ERROR "HEADWAY_INSTRUCTION_SETS names '${isa}', expected some of ${headway_known_sets}")
  endif()
endforeach()
if("avx512_bf16" IN_LIST HEADWAY_INSTRUCTION_SETS AND NOT "avx512" IN_LIST HEADWAY_INSTRUCTION_SETS)
  message(FATAL_ERROR "HEADWAY_INSTRUCTION_SETS names avx512_bf16, whose float kernels are those of avx512: name both")
endif()
set(headway_absent_sets)  # as definitions
foreach(isa IN LISTS headway_known_sets)
  if(NOT isa IN_LIST HEADWAY_INSTRUCTION_SETS)
    string(TOUPPER ${isa} isa_upper)
    list(APPEND headway_absent_sets HEADWAY_WITHOUT_${isa_upper}=1)
  endif()
endforeach()
