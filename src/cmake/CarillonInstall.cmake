# Defines the installation and the packages.
#
#   bin/                                  the program, and links to it
#   share/man, share/bash-completion      man pages, and completion of options
#   share/carillon/jobs                   job scripts and recipes
#   share/modulefiles/carillon/VERSION    environment module
#   share/doc/carillon                    README and documents
#   lib/, include/carillon-X.Y            component development: libraries and headers for users' programs
#   lib/cmake/Carillon                    component development: find_package(Carillon), target Carillon::carillon
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_property(links GLOBAL PROPERTY CARILLON_LINKS)
get_property(libraries GLOBAL PROPERTY CARILLON_LIBRARIES)

# Users link this target as Carillon::carillon. The target `carillon` is the program.
add_library(carillon_api INTERFACE)
target_link_libraries(carillon_api INTERFACE carillon_cli)
set_target_properties(carillon_api PROPERTIES EXPORT_NAME carillon)

install(TARGETS carillon RUNTIME COMPONENT programs)
list(TRANSFORM links PREPEND ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/ OUTPUT_VARIABLE links)
install(PROGRAMS ${links} DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)  # the links are installed as links
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/man ${PROJECT_BINARY_DIR}/share/bash-completion
  DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT programs)
install(DIRECTORY jobs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/carillon/jobs COMPONENT programs USE_SOURCE_PERMISSIONS
  # These scripts require the source tree.
  REGEX "/(quickstart|install_deps|make_bundle|bundle_run|gpu_check)\\.sh$|/install$" EXCLUDE)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT programs)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT programs)
configure_file(jobs/install/modulefile.in modulefile @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/modulefile DESTINATION ${CMAKE_INSTALL_DATADIR}/modulefiles/carillon
  RENAME ${PROJECT_VERSION} COMPONENT programs)

install(TARGETS carillon_api carillon_settings ${libraries} EXPORT CarillonTargets COMPONENT development)
install(DIRECTORY include/ DESTINATION ${CARILLON_INCLUDE_DIR} COMPONENT development)
# Installs the public headers of the ops, kernels/<folder>/<folder>.h, and the shared headers that they include.
set(kernel_headers kernels/shared/window.h kernels/shared/mixing.h)
get_property(op_folders GLOBAL PROPERTY CARILLON_OP_FOLDERS)
foreach(folder IN LISTS op_folders)
  get_filename_component(op ${folder} NAME)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${folder}/${op}.h)
    list(APPEND kernel_headers ${folder}/${op}.h)
  endif()
endforeach()
foreach(header IN LISTS kernel_headers)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CARILLON_INCLUDE_DIR}/${folder} COMPONENT development)
endforeach()
set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/Carillon)
install(EXPORT CarillonTargets NAMESPACE Carillon:: DESTINATION ${package_directory} COMPONENT development)
configure_package_config_file(src/cmake/CarillonConfig.cmake.in ${PROJECT_BINARY_DIR}/CarillonConfig.cmake
  INSTALL_DESTINATION ${package_directory})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/CarillonConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/CarillonConfig.cmake ${PROJECT_BINARY_DIR}/CarillonConfigVersion.cmake
  src/cmake/CarillonDependencies.cmake src/cmake/CarillonCudaLibraries.cmake
  DESTINATION ${package_directory} COMPONENT development)

# Defines the target uninstall. The install rule of this target must be the last install rule.
configure_file(src/cmake/RecordInstallation.cmake.in RecordInstallation.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/RecordInstallation.cmake ALL_COMPONENTS)
add_custom_target(uninstall VERBATIM USES_TERMINAL
  COMMAND ${CMAKE_COMMAND} -DRECORD=${PROJECT_BINARY_DIR}/installed_files.txt
    -P ${PROJECT_SOURCE_DIR}/src/cmake/Uninstall.cmake)

set(CPACK_GENERATOR TGZ)
if(NOT CARILLON_HAS_CUDA)  # a Debian package cannot depend on the CUDA libraries
  list(APPEND CPACK_GENERATOR DEB)
endif()
set(CPACK_PACKAGE_NAME carillon)
set(CPACK_PACKAGE_VENDOR Carillon)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Trains image classifiers with synchronous data parallelism under MPI")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_COMPONENTS_ALL programs development)
# There are two Debian packages: the programs, and the development files. DebianPackage.cmake completes both packages.
set(CARILLON_MAINTAINER "" CACHE STRING
  "Maintainer of Debian packages, NAME <ADDRESS>; empty: author of the last commit")
set(CPACK_CARILLON_MAINTAINER "${CARILLON_MAINTAINER}")
set(CPACK_CARILLON_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/src/cmake/DebianPackage.cmake)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION
  "Programs that train, evaluate and export image classifiers on CPUs,\nwith one or more MPI ranks, and job scripts.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
  "Headers and static libraries for training programs with your own\nnetwork, records, loss and metric.")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME carillon)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS "ca-certificates, fonts-dejavu-core, openmpi-bin")  # tfrecord_convert --download; texts in sheets; mpirun
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS python3)  # jobs/plot_runs.py
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SUGGESTS dataset-fashion-mnist)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME carillon-dev)
execute_process(COMMAND ${PROJECT_SOURCE_DIR}/jobs/install_deps.sh --list OUTPUT_VARIABLE build_packages
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ", " build_packages "${build_packages}")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "carillon (= ${PROJECT_VERSION}), g++, cmake, pkg-config, ${build_packages}")
include(CPack)
