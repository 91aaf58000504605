# Installs the program, the demo model, and the library as one archive with its public headers and a CMake package:
#   find_package(stoker REQUIRED)
#   target_link_libraries(my_program PRIVATE stoker::stoker)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# One archive of all rooms behind the door. (The server is the program's, not the library's.)
add_library(libstoker STATIC)
set_target_properties(libstoker PROPERTIES OUTPUT_NAME stoker EXPORT_NAME stoker LINKER_LANGUAGE CXX)
foreach(room base tensor kernels checkpoint tokenizer chat kv model sampling speculative grammar snapshot catalogue engine api)
  target_sources(libstoker PRIVATE $<TARGET_OBJECTS:stoker_${room}>)
endforeach()
target_compile_features(libstoker INTERFACE cxx_std_20)
target_include_directories(libstoker INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                               $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(libstoker INTERFACE Threads::Threads utf8proc ssl crypto)
add_library(stoker::stoker ALIAS libstoker)  # the name that it has once it is installed

install(TARGETS libstoker EXPORT stoker ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS stoker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/stoker DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/models/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/stoker/models)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/stoker)
install(EXPORT stoker NAMESPACE stoker:: FILE stoker-targets.cmake DESTINATION ${package})
file(WRITE ${PROJECT_BINARY_DIR}/stoker-config.cmake
     "include(CMakeFindDependencyMacro)\nfind_dependency(Threads)\n"
     "include(\${CMAKE_CURRENT_LIST_DIR}/stoker-targets.cmake)\n")
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stoker-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stoker-config.cmake ${PROJECT_BINARY_DIR}/stoker-config-version.cmake
        DESTINATION ${package})
