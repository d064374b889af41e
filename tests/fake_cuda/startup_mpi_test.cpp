#include "src/app/startup.h"
#include "src/device/cuda_device.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/support/mpi_world.h"

namespace carillon::testing {
namespace {

class StartupOnGpus : public GpuTest {};

TEST_F(StartupOnGpus, NamesNoInstructionSet) {
  CudaDevice device(0);
  EXPECT_EQ(isas_of_all(device, Arithmetic::bf16, mpi_world()), "");
}

}  // namespace
}  // namespace carillon::testing
