# The processor family and the instruction sets that kernels are compiled for, the plainest first.

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(HEADWAY_INSTRUCTION_SETS sse4 avx2 avx512 avx512_bf16)
  target_compile_definitions(headway_build_flags INTERFACE HEADWAY_X86=1)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(HEADWAY_INSTRUCTION_SETS neon)
  target_compile_definitions(headway_build_flags INTERFACE HEADWAY_ARM64=1)
else()
  message(FATAL_ERROR "Headway has no kernels for ${CMAKE_SYSTEM_PROCESSOR}: x86-64 and 64-bit ARM are supported")
endif()
