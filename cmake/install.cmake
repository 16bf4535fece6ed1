# What `cmake --install` puts down: headers, libraries, find_package(headway) and pkg-config files.

# headway_write_pc(NAME SHARED DIRECTORY) writes NAME.pc for shared or for static libraries. The prefix is relative to
# the .pc file, so that the installed tree can be moved.
file(RELATIVE_PATH headway_pc_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
function(headway_write_pc name shared directory)
  set(headway_pc_private "")
  set(headway_text_pc_private "")
  set(headway_media_pc_private "")
  if(NOT shared)
    set(headway_pc_private "Libs.private: -pthread -ldl")
    list(JOIN sentencepiece_LDFLAGS " " sentencepiece_flags)
    list(JOIN libzip_LDFLAGS " " libzip_flags)
    list(JOIN pcre2_LDFLAGS " " pcre2_flags)
    list(JOIN utf8proc_LDFLAGS " " utf8proc_flags)
    set(headway_text_pc_private
        "Libs.private: ${sentencepiece_flags} ${libzip_flags} ${pcre2_flags} ${utf8proc_flags} -lz")
    list(JOIN sndfile_LDFLAGS " " sndfile_flags)
    list(JOIN libpng_LDFLAGS " " libpng_flags)
    list(JOIN libjpeg_LDFLAGS " " libjpeg_flags)
    set(headway_media_pc_private "Libs.private: ${sndfile_flags} ${libpng_flags} ${libjpeg_flags}")
  endif()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.pc.in ${directory}/${name}.pc @ONLY)
endfunction()

if(NOT HEADWAY_INSTALL)
  return()
endif()

include(CMakePackageConfigHelpers)

set(headway_installed headway)
set(headway_packages headway)
set(headway_text_headers "/(attention_view|clip_model|fine_tuning|mask_filler|quantization|question_answerer|rouge|sequence_recommender|text[a-z_]*|token[a-z_]*|transformer_model|translat[a-z_]*)\\.h$")
set(headway_media_headers "/(audio|image|image_captioner|media|picture_classifier|transcriber)\\.h$")
install(DIRECTORY include/headway DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h" REGEX ${headway_text_headers} EXCLUDE REGEX ${headway_media_headers} EXCLUDE)
if(HEADWAY_BUILD_TEXT)
  list(APPEND headway_installed headway_text)
  list(APPEND headway_packages headway_text)
  install(DIRECTORY include/headway DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING REGEX ${headway_text_headers})
endif()
if(HEADWAY_BUILD_MEDIA)
  list(APPEND headway_installed headway_media)
  list(APPEND headway_packages headway_media)
  install(DIRECTORY include/headway DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING REGEX ${headway_media_headers})
endif()

set(headway_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/headway)
install(TARGETS ${headway_installed} EXPORT headwayTargets)
install(EXPORT headwayTargets NAMESPACE headway:: DESTINATION ${headway_cmake_dir})
configure_package_config_file(cmake/headwayConfig.cmake.in headwayConfig.cmake INSTALL_DESTINATION ${headway_cmake_dir})
# Before 1.0 a minor version may change anything.
write_basic_package_version_file(headwayConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/headwayConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/headwayConfigVersion.cmake
        DESTINATION ${headway_cmake_dir})

foreach(package IN LISTS headway_packages)
  headway_write_pc(${package} "${HEADWAY_SHARED}" ${CMAKE_CURRENT_BINARY_DIR})
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
