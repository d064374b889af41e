# Finds what the GPU tower needs, as CARILLON_CUDA asks, and sets CARILLON_HAS_CUDA. Targets: carillon_cudnn,
# carillon_cudnn_frontend, carillon_nccl.
#
# cuDNN and NCCL are looked for beside the CUDA toolkit and in the system's places; the headers of cudnn-frontend
# (jobs/install_deps.sh --cuda) also in ~/.local/include.

set(CARILLON_HAS_CUDA FALSE)
if(CARILLON_CUDA STREQUAL "OFF")
  return()
endif()

set(missing "")
find_package(CUDAToolkit 12.8 QUIET)
if(NOT CUDAToolkit_FOUND)
  list(APPEND missing "the CUDA toolkit, 12.8 or later")
else()
  find_path(CARILLON_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CARILLON_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
  find_path(CARILLON_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CARILLON_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR})
  find_path(CARILLON_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS $ENV{HOME}/.local/include)
  foreach(part CUDNN NCCL CUDNN_FRONTEND)
    if(NOT CARILLON_${part}_INCLUDE OR (NOT part STREQUAL "CUDNN_FRONTEND" AND NOT CARILLON_${part}_LIBRARY))
      string(TOLOWER ${part} name)
      string(REPLACE "_" "-" name ${name})
      list(APPEND missing ${name})
    endif()
  endforeach()
endif()

if(NOT missing)
  include(CheckLanguage)
  set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    list(APPEND missing "a host compiler that ${CUDAToolkit_NVCC_EXECUTABLE} takes")
  endif()
endif()

if(missing)
  list(JOIN missing ", " missing)
  if(CARILLON_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CARILLON_CUDA=ON: not found: ${missing} (jobs/install_deps.sh --cuda gets cudnn-frontend)")
  endif()
  message(STATUS "Building the CPU tower only: not found: ${missing}")
  return()
endif()

set(CARILLON_HAS_CUDA TRUE)
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90)  # 90: machine code and PTX, for GPUs to come
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.25.2 does not know nvcc's flag
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)

function(carillon_imported name include library)
  add_library(${name} INTERFACE)
  target_include_directories(${name} SYSTEM INTERFACE ${include})
  target_link_libraries(${name} INTERFACE ${library})
endfunction()
carillon_imported(carillon_cudnn ${CARILLON_CUDNN_INCLUDE} ${CARILLON_CUDNN_LIBRARY})
carillon_imported(carillon_cudnn_frontend ${CARILLON_CUDNN_FRONTEND_INCLUDE} "carillon_cudnn;CUDA::nvrtc")
carillon_imported(carillon_nccl ${CARILLON_NCCL_INCLUDE} ${CARILLON_NCCL_LIBRARY})
message(STATUS "Building the GPU tower: CUDA ${CUDAToolkit_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
