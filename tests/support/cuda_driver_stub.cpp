// A library libcuda.so.1 that finds no device, for tests of cuDNN's plans. If cuDNN cannot load the driver, it refuses
// every plan that it must compile at run time. With this library, cuDNN makes such plans for a GPU that the machine
// does not have. The plans cannot run.
namespace {
enum { success = 0, no_device = 100, not_found = 500 };
}  // namespace

#define WITHOUT_DEVICE(name) \
  int name() { return no_device; }

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
int cuDeviceGetCount(int* count) {
  *count = 0;
  return no_device;
}
int cuGetErrorString(int /*error*/, const char** text) {
  *text = "no device";
  return success;
}
int cuGetErrorName(int /*error*/, const char** text) {
  *text = "NO_DEVICE";
  return success;
}
int cuGetProcAddress(const char* /*name*/, void** function, int /*version*/, unsigned long long /*flags*/) {
  *function = nullptr;
  return not_found;
}
int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags, int* /*status*/) {
  return cuGetProcAddress(name, function, version, flags);
}

// cuDNN 9.19 also requests the addresses of these functions.
WITHOUT_DEVICE(cuInit)
WITHOUT_DEVICE(cuCtxGetCurrent)
WITHOUT_DEVICE(cuCtxGetDevice)
WITHOUT_DEVICE(cuCtxGetLimit)
WITHOUT_DEVICE(cuCtxPopCurrent)
WITHOUT_DEVICE(cuCtxPushCurrent)
WITHOUT_DEVICE(cuDeviceGet)
WITHOUT_DEVICE(cuDeviceGetAttribute)
WITHOUT_DEVICE(cuDevicePrimaryCtxRelease)
WITHOUT_DEVICE(cuDevicePrimaryCtxReset)
WITHOUT_DEVICE(cuDevicePrimaryCtxRetain)
WITHOUT_DEVICE(cuFuncGetAttribute)
WITHOUT_DEVICE(cuFuncSetAttribute)
WITHOUT_DEVICE(cuKernelGetAttribute)
WITHOUT_DEVICE(cuKernelSetAttribute)
WITHOUT_DEVICE(cuLaunchCooperativeKernel)
WITHOUT_DEVICE(cuLaunchKernel)
WITHOUT_DEVICE(cuLaunchKernelEx)
WITHOUT_DEVICE(cuLibraryGetKernel)
WITHOUT_DEVICE(cuLibraryLoadData)
WITHOUT_DEVICE(cuLibraryLoadFromFile)
WITHOUT_DEVICE(cuLibraryUnload)
WITHOUT_DEVICE(cuLinkAddData)
WITHOUT_DEVICE(cuLinkAddData_v2)
WITHOUT_DEVICE(cuLinkAddFile_v2)
WITHOUT_DEVICE(cuLinkComplete)
WITHOUT_DEVICE(cuLinkCreate)
WITHOUT_DEVICE(cuLinkCreate_v2)
WITHOUT_DEVICE(cuLinkDestroy)
WITHOUT_DEVICE(cuMemcpyDtoH_v2)
WITHOUT_DEVICE(cuModuleGetFunction)
WITHOUT_DEVICE(cuModuleGetGlobal_v2)
WITHOUT_DEVICE(cuModuleLoadData)
WITHOUT_DEVICE(cuModuleLoadDataEx)
WITHOUT_DEVICE(cuModuleLoadFatBinary)
WITHOUT_DEVICE(cuModuleUnload)
WITHOUT_DEVICE(cuOccupancyMaxActiveBlocksPerMultiprocessor)
WITHOUT_DEVICE(cuOccupancyMaxPotentialClusterSize)
WITHOUT_DEVICE(cuStreamGetCtx)
WITHOUT_DEVICE(cuStreamSynchronize)
WITHOUT_DEVICE(cuTensorMapEncodeTiled)

}  // extern "C"
