# The target api_reference runs Doxygen, which writes the HTML reference of the installed headers to
# build/docs/api/index.html. Uses the variable kernel_headers of CarillonInstall.cmake. A test runs Doxygen with the
# same Doxyfile.
set(api_inputs docs/developer-guide/api-reference.md include/carillon ${kernel_headers})
list(TRANSFORM api_inputs REPLACE "(.+)" "\"${PROJECT_SOURCE_DIR}/\\1\"")
list(JOIN api_inputs " " api_inputs)
configure_file(src/cmake/Doxyfile.in ${PROJECT_BINARY_DIR}/docs/Doxyfile @ONLY)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/docs/api)
add_custom_target(api_reference COMMAND doxygen ${PROJECT_BINARY_DIR}/docs/Doxyfile VERBATIM)
