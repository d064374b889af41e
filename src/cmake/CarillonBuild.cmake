# What every target of Carillon is built with, and the one way to declare a library.

add_library(carillon_settings INTERFACE)
target_include_directories(carillon_settings INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
target_compile_options(carillon_settings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
    -Wno-missing-field-initializers>  # structs of parameters are given by name, the rest keep their defaults
  $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno>  # square roots vectorise; nothing reads errno after one
  $<$<BOOL:${CARILLON_WARNINGS_AS_ERRORS}>:-Werror>)
if(CARILLON_SANITIZE)
  target_compile_options(carillon_settings INTERFACE -fsanitize=${CARILLON_SANITIZE} -fno-omit-frame-pointer
                                                     -fno-sanitize-recover=all)
  target_link_options(carillon_settings INTERFACE -fsanitize=${CARILLON_SANITIZE})
endif()

# carillon_library(NAME DIRECTORIES dir... LINK target...): the static library carillon_NAME of the *.cpp in the
# directories, which are given from the project's root. A new file needs no line here.
function(carillon_library name)
  cmake_parse_arguments(ARG "" "" "DIRECTORIES;LINK" ${ARGN})
  set(sources "")
  foreach(directory IN LISTS ARG_DIRECTORIES)
    file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${directory}/*.cpp)
    list(APPEND sources ${found})
  endforeach()
  add_library(carillon_${name} STATIC ${sources})
  target_link_libraries(carillon_${name} PUBLIC carillon_settings ${ARG_LINK})
endfunction()
