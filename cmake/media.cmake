# The media library: sounds and pictures, and the tasks on them. Apart from libheadway_text, so that text needs neither
# libsndfile nor libpng and libjpeg.

pkg_check_modules(sndfile REQUIRED IMPORTED_TARGET sndfile)
pkg_check_modules(libpng REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(libjpeg REQUIRED IMPORTED_TARGET libjpeg)
headway_add_headers(headway_kissfft kissfft/kissfft.hh)

set(headway_media_sources)
foreach(folder IN ITEMS media perception)
  file(GLOB folder_sources CONFIGURE_DEPENDS src/${folder}/*.cpp)
  set_source_files_properties(${folder_sources} PROPERTIES UNITY_GROUP ${folder})
  list(APPEND headway_media_sources ${folder_sources})
endforeach()
set(headway_media_packages PkgConfig::sndfile PkgConfig::libpng PkgConfig::libjpeg)

add_library(headway_media_objects OBJECT ${headway_media_sources})
set_target_properties(headway_media_objects PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
target_link_libraries(headway_media_objects PRIVATE headway_build_flags headway_hardening headway_library_assertions
                                                    headway_strict_warnings headway_kissfft ${headway_media_packages})

# Like headway_text, it has the base of its own where libheadway hides its.
add_library(headway_media ${headway_library_type} $<TARGET_OBJECTS:headway_media_objects>
            $<$<BOOL:${HEADWAY_SHARED}>:$<TARGET_OBJECTS:headway_base>>)
add_library(headway::media ALIAS headway_media)
set_target_properties(headway_media PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0 EXPORT_NAME media
                                               INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON)
target_link_libraries(headway_media PUBLIC headway_text
                                    PRIVATE ${headway_media_packages} $<BUILD_INTERFACE:headway_hardened_link>)
headway_stays_loaded(headway_media)

# The same objects beside the internals of the other libraries, for the tests.
if(HEADWAY_SHARED)
  add_library(headway_media_internal STATIC $<TARGET_OBJECTS:headway_media_objects>)
  target_link_libraries(headway_media_internal INTERFACE headway_text_internal ${headway_media_packages})
else()
  add_library(headway_media_internal INTERFACE)
  target_link_libraries(headway_media_internal INTERFACE headway_media headway_text_internal)
endif()
