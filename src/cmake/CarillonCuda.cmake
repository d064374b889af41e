# Finds the compiler and libraries of the GPU tower if CARILLON_CUDA requests them, and sets CARILLON_HAS_CUDA. Defines
# the targets of CarillonCudaLibraries.cmake, and carillon_cudnn_frontend. Only the build requires the headers of
# cudnn-frontend; jobs/install_deps.sh --cuda installs them in /usr/local/include or ~/.local/include.

set(CARILLON_HAS_CUDA FALSE)
if(CARILLON_CUDA STREQUAL "OFF")
  return()
endif()

include(CarillonCudaLibraries)
set(missing ${CARILLON_CUDA_MISSING})
find_path(CARILLON_CUDNN_FRONTEND_INCLUDE cudnn_frontend.h HINTS $ENV{HOME}/.local/include)
if(NOT CARILLON_CUDNN_FRONTEND_INCLUDE)
  list(APPEND missing cudnn-frontend)
endif()
if(NOT missing)
  include(CheckLanguage)
  set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    list(APPEND missing "a host compiler that ${CUDAToolkit_NVCC_EXECUTABLE} supports")
  endif()
endif()

if(missing)
  list(JOIN missing ", " missing)
  if(CARILLON_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CARILLON_CUDA=ON: not found: ${missing} (jobs/install_deps.sh --cuda installs cudnn-frontend)")
  endif()
  message(STATUS "Building for CPUs only: not found: ${missing}")
  return()
endif()

set(CARILLON_HAS_CUDA TRUE)
carillon_imported(carillon_cudnn_frontend ${CARILLON_CUDNN_FRONTEND_INCLUDE} carillon_cudnn)
if(NOT CMAKE_CUDA_ARCHITECTURES)
  # 80-real: machine code for Ampere. 90a-real: machine code with instructions that only Hopper has. 90: machine code
  # for Hopper, and PTX for later GPUs.
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 90)
endif()
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.25.2 does not know nvcc's flag
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
if(CARILLON_TESTS AND EXISTS /usr/bin/python3)  # for the test Structure.CudaKernelsFitIntoRegisters
  list(PREPEND CMAKE_CUDA_COMPILER_LAUNCHER /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/structure/kernel_resources.py record)
  string(APPEND CMAKE_CUDA_FLAGS " -Xptxas=-v")
endif()
message(STATUS "Building for CPUs and GPUs: CUDA ${CUDAToolkit_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
