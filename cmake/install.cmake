# What `cmake --install` puts down: headers, the shared library, find_package(headway) and pkg-config files.

include(CMakePackageConfigHelpers)

install(TARGETS headway EXPORT headwayTargets)
install(DIRECTORY include/headway DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

set(headway_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/headway)
install(EXPORT headwayTargets NAMESPACE headway:: DESTINATION ${headway_cmake_dir})
configure_package_config_file(cmake/headwayConfig.cmake.in headwayConfig.cmake INSTALL_DESTINATION ${headway_cmake_dir})
# Before 1.0 a minor version may change anything.
write_basic_package_version_file(headwayConfigVersion.cmake COMPATIBILITY SameMinorVersion)

# The prefix is written relative to the .pc file, so that the installed tree can be moved.
file(RELATIVE_PATH headway_pc_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file(cmake/headway.pc.in headway.pc @ONLY)

install(FILES ${CMAKE_CURRENT_BINARY_DIR}/headwayConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/headwayConfigVersion.cmake
        DESTINATION ${headway_cmake_dir})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/headway.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
