# cpack runs this file after it has collected the files and before it makes the packages. The file adds what Debian's
# policy requires: maintainer, changelog, copyright, compressed man pages, and no run path. With other generators than
# DEB, this file does nothing.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()

# git_log(VARIABLE FORMAT): sets VARIABLE to what `git log` with FORMAT prints about the packaged commit. If the sources
# are not the root of a repository, VARIABLE is empty.
function(git_log variable format)
  set(git ${CMAKE_COMMAND} -E env --unset=GIT_DIR --unset=GIT_WORK_TREE git -C "${CPACK_CARILLON_SOURCE}")
  set(text "")
  execute_process(COMMAND ${git} rev-parse --show-toplevel
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH "${CPACK_CARILLON_SOURCE}" source)
  if(top STREQUAL source)
    execute_process(COMMAND ${git} log -1 --format=${format} OUTPUT_VARIABLE text OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

set(maintainer "${CPACK_CARILLON_MAINTAINER}")
if(NOT maintainer)
  git_log(maintainer "%an <%ae>")
endif()
if(NOT maintainer MATCHES "^[^<>]+ <[^<> ]+@[^<> ]+>$")
  message(FATAL_ERROR
    "A Debian package requires a maintainer: configure with -DCARILLON_MAINTAINER='NAME <ADDRESS>', not '${maintainer}'")
endif()
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${maintainer}")

git_log(date "%cD")
git_log(commit "%h")
set(version "Version ${CPACK_PACKAGE_VERSION}")
if(commit)
  string(APPEND version ", commit ${commit}")
else()
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # the present time, or SOURCE_DATE_EPOCH
endif()

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root "${CPACK_TEMPORARY_DIRECTORY}/${component}${CPACK_PACKAGING_INSTALL_PREFIX}")
  set(documents "${root}/share/doc/${package}")
  file(COPY "${CPACK_CARILLON_SOURCE}/jobs/install/copyright" DESTINATION "${documents}")
  file(WRITE "${documents}/changelog" "${package} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
    "  * ${version}.\n    docs/CHANGELOG.md of the package carillon lists the changes.\n\n -- ${maintainer}  ${date}\n")
  # The programs need no run path: the loader knows the directories of Debian's libraries.
  file(GLOB programs "${root}/bin/*")
  foreach(program IN LISTS programs)
    if(NOT IS_SYMLINK "${program}")
      file(RPATH_REMOVE FILE "${program}")
    endif()
  endforeach()
  file(GLOB compressed "${root}/share/man/man*/*" "${documents}/changelog")
  execute_process(COMMAND gzip -9n ${compressed} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
