#include "carillon/core/device.h"

#include "carillon/core/cpu_device.h"
#include "carillon/core/error.h"
#include "cuda_device.h"

namespace carillon {

std::unique_ptr<Device> open_device(std::string_view choice, int local_rank, int thread_count) {
  if (choice == "cuda" || (choice == "auto" && cuda_device_count() > 0)) return open_cuda_device(local_rank);
  return std::make_unique<CpuDevice>(thread_count);
}

}  // namespace carillon
