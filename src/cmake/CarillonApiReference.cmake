# The target api_reference: build/docs/api/index.html, the HTML reference of the installed headers, made by Doxygen.
# Uses the variable kernel_headers of CarillonInstall.cmake. A test runs Doxygen with the same Doxyfile.
set(api_inputs docs/developer-guide/api-reference.md include/carillon ${kernel_headers})
list(TRANSFORM api_inputs REPLACE "(.+)" "\"${PROJECT_SOURCE_DIR}/\\1\"")
list(JOIN api_inputs " " api_inputs)
configure_file(src/cmake/Doxyfile.in ${PROJECT_BINARY_DIR}/docs/Doxyfile @ONLY)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/docs/api)
add_custom_target(api_reference COMMAND doxygen ${PROJECT_BINARY_DIR}/docs/Doxyfile VERBATIM)
