# The text library and the `headway` program: apart from libheadway, so that attention alone needs neither SentencePiece
# nor libzip, PCRE2 and utf8proc. What they use of its internals carries HEADWAY_INTERNAL_API.

find_package(PkgConfig REQUIRED)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
find_package(ZLIB REQUIRED)

set(headway_text_sources)
foreach(folder IN ITEMS text text/tokenizer models generate tasks training translation report explain)
  file(GLOB folder_sources CONFIGURE_DEPENDS src/${folder}/*.cpp)
  string(REPLACE "/" "_" group ${folder})
  set_source_files_properties(${folder_sources} PROPERTIES UNITY_GROUP ${group})
  list(APPEND headway_text_sources ${folder_sources})
endforeach()
set(headway_text_packages PkgConfig::sentencepiece PkgConfig::libzip PkgConfig::pcre2 PkgConfig::utf8proc ZLIB::ZLIB)

include(cmake/embed.cmake)
add_library(headway_text_objects OBJECT ${headway_text_sources} ${headway_viewer_source})
set_target_properties(headway_text_objects PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
target_link_libraries(headway_text_objects PRIVATE headway_build_flags headway_hardening headway_library_assertions
                                                   headway_strict_warnings ${headway_text_packages})

# A shared libheadway hides its base; a static one has it for both.
add_library(headway_text ${headway_library_type} $<TARGET_OBJECTS:headway_text_objects>
            $<$<BOOL:${HEADWAY_SHARED}>:$<TARGET_OBJECTS:headway_base>>)
add_library(headway::text ALIAS headway_text)
set_target_properties(headway_text PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 EXPORT_NAME text
                                              INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
target_link_libraries(headway_text PUBLIC headway PRIVATE ${headway_text_packages} $<BUILD_INTERFACE:headway_hardened_link>)
headway_stays_loaded(headway_text)

# The same objects beside the internals of libheadway, for the tests.
if(HEADWAY_SHARED)
  add_library(headway_text_internal STATIC $<TARGET_OBJECTS:headway_text_objects>)
  target_link_libraries(headway_text_internal INTERFACE headway_internal ${headway_text_packages})
else()
  add_library(headway_text_internal INTERFACE)
  target_link_libraries(headway_text_internal INTERFACE headway_text headway_internal)
endif()
