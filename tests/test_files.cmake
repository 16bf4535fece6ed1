# Which folder of src a test looks at: the part of its name before the first underscore. A test file that no folder
# claims stops the configuration, so that none is left out in silence.

set(headway_plain_folders base core backend dist io nn train)
set(headway_kernel_folders ops matmul attention)  # these run on every instruction set
set(headway_text_folders text models generate tasks training translation report explain)  # these need the text library
set(headway_media_folders media perception)  # these need the media library

# headway_find_tests(DIRECTORY RESULT) puts the test files of a directory into RESULT.
function(headway_find_tests directory result)
  file(GLOB sources CONFIGURE_DEPENDS ${directory}/*.cpp)
  set(tests)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    if(name STREQUAL "main")
      continue()
    endif()
    if(NOT name MATCHES "_test$")
      message(FATAL_ERROR "${source}: a test's name ends in _test.cpp; what tests share belongs into tests/support")
    endif()
    headway_folder_of_test(${name} folder)
    if(NOT folder IN_LIST headway_plain_folders AND NOT folder IN_LIST headway_kernel_folders
       AND NOT folder IN_LIST headway_text_folders AND NOT folder IN_LIST headway_media_folders)
      message(FATAL_ERROR "${source}: tests/test_files.cmake knows no folder '${folder}', so this test would not be built")
    endif()
    list(APPEND tests ${source})
  endforeach()
  file(GLOB nested CONFIGURE_DEPENDS ${directory}/*/*_test.cpp)
  list(FILTER nested EXCLUDE REGEX "/cuda/[^/]*$")  # tests/cuda has a list of its own
  if(nested)
    message(FATAL_ERROR "${nested}: tests are in tests/ or in tests/cuda, so this one would not be built")
  endif()
  set(${result} ${tests} PARENT_SCOPE)
endfunction()

# headway_folder_of_test(NAME RESULT) puts `ops` into RESULT for ops_norm_test.
function(headway_folder_of_test name result)
  string(REGEX MATCH "^[^_]+" folder ${name})
  set(${result} ${folder} PARENT_SCOPE)
endfunction()
