# Compiler settings of all targets, and functions that declare libraries.

add_library(carillon_settings INTERFACE)
set(CARILLON_INCLUDE_DIR include/carillon-${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})  # in the installation
target_include_directories(carillon_settings INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<INSTALL_INTERFACE:${CARILLON_INCLUDE_DIR}>)
target_compile_definitions(carillon_settings INTERFACE CARILLON_HAS_CUDA=$<BOOL:${CARILLON_HAS_CUDA}>
  $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)  # fmt 9 disables it for nvcc, then fails to compile as C++20
target_compile_features(carillon_settings INTERFACE cxx_std_20)
target_compile_options(carillon_settings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno>)  # lets square roots vectorise; no code reads their errno

# Warnings for the project's own targets. Users of the libraries do not inherit them.
add_library(carillon_warnings INTERFACE)
target_compile_options(carillon_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
    -Wno-missing-field-initializers>  # designated initialisers omit fields that keep their defaults
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-Wno-missing-field-initializers>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${CARILLON_WARNINGS_AS_ERRORS}>>:-Werror>
  $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${CARILLON_WARNINGS_AS_ERRORS}>>:-Werror=all-warnings>)
if(CARILLON_SANITIZE)
  target_compile_options(carillon_settings INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${CARILLON_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(carillon_settings INTERFACE -fsanitize=${CARILLON_SANITIZE})
endif()

# A precompiled header of the standard library and fmt saves a third of the processor time of a build. ccache cannot
# cache objects that use it, so the precompiled header is off if there is a compiler launcher. The tests build with
# ccache, so without the precompiled header. Such a build shows that each file includes what it needs.
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(use_precompiled_header OFF)
else()
  set(use_precompiled_header ON)
endif()
option(CARILLON_PRECOMPILED_HEADER "Precompile the headers of the standard library" ${use_precompiled_header})
if(CARILLON_PRECOMPILED_HEADER)
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp "")
  add_library(carillon_precompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  target_link_libraries(carillon_precompiled PRIVATE carillon_warnings carillon_settings fmt::fmt OpenMP::OpenMP_CXX)
  target_precompile_headers(carillon_precompiled PRIVATE <algorithm> <array> <chrono> <cmath> <cstdint> <cstring>
    <filesystem> <functional> <map> <memory> <optional> <span> <string> <string_view> <utility> <vector>
    <fmt/format.h> <fmt/ranges.h>)
endif()

# carillon_sources(VARIABLE directory...): sets VARIABLE to the *.cpp and *.cu of the directories, which are relative to
# the project's root. Files named *_cuda.cpp, cuda_* or nccl_* are in the list only in builds with CUDA. Files named
# *_simd.cpp are excluded (see carillon_simd).
function(carillon_sources variable)
  set(sources "")
  foreach(directory IN LISTS ARGN)
    file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${directory}/*.cpp ${PROJECT_SOURCE_DIR}/${directory}/*.cu)
    list(APPEND sources ${found})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "_simd\\.cpp$")
  if(NOT CARILLON_HAS_CUDA)
    list(FILTER sources EXCLUDE REGEX "_cuda\\.cpp$|/(cuda|nccl)_[^/]*\\.cpp$|\\.cu$")
  endif()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# carillon_simd(NAME directory...): compiles the directories' *_simd.cpp once for each instruction set, as objects
# carillon_NAME_<isa>. <isa> is the name of the instruction set in carillon/device/isa.h; the macro CARILLON_ISA holds it.
set(CARILLON_ISAS plain)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND CARILLON_ISAS avx2 avx512)
  set(CARILLON_ISA_OPTIONS_avx2 -march=x86-64-v3)
  set(CARILLON_ISA_OPTIONS_avx512 -march=x86-64-v4 -mprefer-vector-width=512)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Without this option, GCC moves arithmetic past the checks for the edges of an image and spills the operands to the
  # stack.
  set(CARILLON_SIMD_OPTIONS -fno-tree-sink)
endif()

function(carillon_simd name)
  set(sources "")
  foreach(directory IN LISTS ARGN)
    file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${directory}/*_simd.cpp)
    list(APPEND sources ${found})
  endforeach()
  if(NOT sources)
    return()
  endif()
  foreach(isa IN LISTS CARILLON_ISAS)
    add_library(carillon_${name}_${isa} OBJECT ${sources})
    target_link_libraries(carillon_${name}_${isa} PRIVATE carillon_warnings carillon_settings)
    target_compile_options(carillon_${name}_${isa} PRIVATE ${CARILLON_SIMD_OPTIONS} ${CARILLON_ISA_OPTIONS_${isa}})
    target_compile_definitions(carillon_${name}_${isa} PRIVATE CARILLON_ISA=${isa})
    target_sources(carillon_${name} PRIVATE $<TARGET_OBJECTS:carillon_${name}_${isa}>)
  endforeach()
endfunction()

# carillon_library(NAME [DIRECTORIES dir...] LINK target... [CUDA_LINK target...]): adds the static library
# carillon_NAME with all sources in the directories (default: src/NAME). New source files need no change here. CUDA_LINK
# has the targets that are also linked in a build with CUDA.
function(carillon_library name)
  cmake_parse_arguments(ARG "" "" "DIRECTORIES;LINK;CUDA_LINK" ${ARGN})
  if(NOT ARG_DIRECTORIES)
    set(ARG_DIRECTORIES src/${name})
  endif()
  set_property(GLOBAL PROPERTY CARILLON_FOLDERS_${name} ${ARG_DIRECTORIES})
  carillon_sources(sources ${ARG_DIRECTORIES})
  add_library(carillon_${name} STATIC ${sources})
  carillon_simd(${name} ${ARG_DIRECTORIES})
  target_link_libraries(carillon_${name} PRIVATE $<BUILD_INTERFACE:carillon_warnings> PUBLIC carillon_settings ${ARG_LINK})
  set_target_properties(carillon_${name} PROPERTIES EXPORT_NAME ${name})
  if(CARILLON_PRECOMPILED_HEADER)
    target_precompile_headers(carillon_${name} REUSE_FROM carillon_precompiled)
  endif()
  set_property(GLOBAL APPEND PROPERTY CARILLON_LIBRARIES carillon_${name})
  if(CARILLON_HAS_CUDA)
    target_link_libraries(carillon_${name} PUBLIC ${ARG_CUDA_LINK})
  endif()
endfunction()

# carillon_protobuf(NAME FILE): adds the library carillon_NAME_proto with the messages in FILE, a path relative to src.
# Sources include the messages as "<folder>/<stem>.pb.h". Public headers must not include them.
function(carillon_protobuf name file)
  add_library(carillon_${name}_proto STATIC ${file})
  protobuf_generate(TARGET carillon_${name}_proto LANGUAGE cpp IMPORT_DIRS ${CMAKE_CURRENT_SOURCE_DIR}
    PROTOC_OUT_DIR ${CMAKE_CURRENT_BINARY_DIR})
  target_include_directories(carillon_${name}_proto SYSTEM PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_BINARY_DIR}>)
  target_link_libraries(carillon_${name}_proto PUBLIC protobuf::libprotobuf)
  set_target_properties(carillon_${name}_proto PROPERTIES EXPORT_NAME ${name}_proto)
  set_property(GLOBAL APPEND PROPERTY CARILLON_LIBRARIES carillon_${name}_proto)
endfunction()
