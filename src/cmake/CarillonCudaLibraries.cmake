# Finds the libraries of the GPU tower, for Carillon's own build and for programs that use its installed libraries. Sets
# CARILLON_CUDA_MISSING, the names of what is not found; where that is nothing, there are the targets carillon_cudnn,
# carillon_cudnn_frontend and carillon_nccl.
#
# cuDNN and NCCL are looked for beside the CUDA toolkit and in the system's places; the headers of cudnn-frontend
# (jobs/install_deps.sh --cuda) also in ~/.local/include.

set(CARILLON_CUDA_MISSING "")
find_package(CUDAToolkit 12.8 QUIET)
if(NOT CUDAToolkit_FOUND)
  list(APPEND CARILLON_CUDA_MISSING "the CUDA toolkit, 12.8 or later")
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
      list(APPEND CARILLON_CUDA_MISSING ${name})
    endif()
  endforeach()
endif()
if(CARILLON_CUDA_MISSING)
  return()
endif()

# Imported, so that what is installed names them, and not their places on the machine that built it.
function(carillon_imported name include library)
  add_library(${name} INTERFACE IMPORTED)
  target_include_directories(${name} SYSTEM INTERFACE ${include})
  target_link_libraries(${name} INTERFACE ${library})
endfunction()
carillon_imported(carillon_cudnn ${CARILLON_CUDNN_INCLUDE} ${CARILLON_CUDNN_LIBRARY})
carillon_imported(carillon_cudnn_frontend ${CARILLON_CUDNN_FRONTEND_INCLUDE} "carillon_cudnn;CUDA::nvrtc")
carillon_imported(carillon_nccl ${CARILLON_NCCL_INCLUDE} ${CARILLON_NCCL_LIBRARY})
