# Writes carillon_sources.h at each build. The header defines CARILLON_SOURCES, the commit of the sources. If files
# differ from the commit, CARILLON_SOURCES ends in "-changed". If there is no repository, it is empty. The build runs
# this file as a script, with -DSOURCE= -DHEADER=.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(header ${PROJECT_BINARY_DIR}/src/carillon_sources.h)
  add_custom_target(carillon_version
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DHEADER=${header} -P ${CMAKE_CURRENT_LIST_FILE}
    BYPRODUCTS ${header} VERBATIM)
  return()
endif()

set(name "")
find_program(git git)
if(git)
  # The command asks only the repository of the sources. The command ignores a repository that contains the unpacked
  # sources, and a repository that a git hook has set in the environment.
  set(own_git ${CMAKE_COMMAND} -E env --unset=GIT_DIR --unset=GIT_WORK_TREE ${git} -C ${SOURCE})
  execute_process(COMMAND ${own_git} rev-parse --show-toplevel
    OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(REAL_PATH ${SOURCE} source)
  if(top STREQUAL source)
    execute_process(COMMAND ${own_git} describe --always --abbrev=10 --exclude=* --dirty=-changed
      OUTPUT_VARIABLE name OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
file(CONFIGURE OUTPUT ${HEADER} CONTENT "#define CARILLON_SOURCES \"${name}\"\n")
