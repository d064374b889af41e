// Tests which GPU a process uses, also in threads other than the main thread.
#include <thread>

#include "carillon/core/error.h"
#include "src/device/cuda_backend.h"
#include "src/device/cuda_device.h"
#include "support/fake_cuda/fake_cuda.h"
#include "tests/gpu/gpu_under_test.h"

namespace carillon::testing {
namespace {

using Gpus = std::vector<fake_cuda::Gpu>;

class Devices : public GpuTest {
 protected:
  static std::string id_of(int ordinal) { return CudaDevice(ordinal).unique_id(); }
};

TEST_F(Devices, GpusThatAreTooOldAreLeftOut) {
  fake_cuda::configure({.gpus = Gpus{{.number = 0}, {.number = 1, .major = 7}, {.number = 2}}});
  EXPECT_EQ(find_cuda_gpus().ordinals, (std::vector<int>{0, 2}));
  const std::vector<std::string> expected{"GPU:0", "GPU:2", "GPU:0"};
  for (int rank = 0; rank < 3; ++rank) {
    const auto device = open_device({.choice = "cuda", .local_rank = rank});
    EXPECT_EQ(device->name(), expected[static_cast<std::size_t>(rank)]) << "local rank " << rank;
  }
}

TEST_F(Devices, IfAllGpusAreTooOldTheReasonNamesOne) {
  fake_cuda::configure({.gpus = Gpus{{.number = 0, .major = 6}, {.number = 1, .major = 7}}});
  try {
    open_device({.choice = "cuda"});
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::no_device);
    EXPECT_STREQ(error.what(), "--device cuda: GPU 0, Fake GPU 0, has compute capability 6.0; 8.0 or later is needed");
  }
}

TEST_F(Devices, UuidsTellGpusWithEqualPciAddressesApart) {
  fake_cuda::configure({.gpus = Gpus{{.number = 3, .pci_bus = 0x1b}, {.number = 10, .pci_bus = 0x1b}}});
  EXPECT_EQ(id_of(0), "GPU-fa000000-0000-0000-0000-000000000003");
  EXPECT_EQ(id_of(1), "GPU-fa000000-0000-0000-0000-00000000000a");
}

TEST_F(Devices, MigSlicesOfOneGpuHaveTheIdOfTheGpu) {
  const std::string slice = " MIG 1g.18gb";
  fake_cuda::configure({.gpus = Gpus{{.number = 1, .pci_bus = 0x1b, .name_end = slice},
                                     {.number = 2, .pci_bus = 0x1b, .name_end = slice},
                                     {.number = 3, .pci_bus = 0x2c, .name_end = slice}}});
  EXPECT_EQ(id_of(0), "GPU 0000:1b:00.0");
  EXPECT_EQ(id_of(1), id_of(0));
  EXPECT_EQ(id_of(2), "GPU 0000:2c:00.0");
}

/// In each new thread, CUDA's current device is device 0, not the GPU of the process.
TEST_F(Devices, AnyThreadCopiesToAndFromTheGpuOfItsProcess) {
  fake_cuda::configure({.devices = 2});
  CudaDevice device(1);
  const Buffer memory = device.allocate(sizeof(float));
  const float value = 1.5f;
  float found = 0.0f;
  std::thread([&] { device.upload(&value, memory.data(), sizeof value); }).join();
  std::thread([&] { device.download(memory.data(), &found, sizeof found); }).join();
  EXPECT_EQ(found, value);
}

TEST_F(Devices, TheFakeReportsWorkOnAGpuThatIsNotCurrent) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  fake_cuda::configure({.devices = 2});
  const auto use = [](const auto& body) {
    CudaDevice device(1);
    const Buffer memory = device.allocate(sizeof(float));
    std::thread([&] { body(device, memory); }).join();
  };
  EXPECT_DEATH(use([](CudaDevice& device, const Buffer&) { device.stream().synchronize(); }),
               "of GPU 1, but the thread uses GPU 0");
  EXPECT_DEATH(use([](CudaDevice&, const Buffer& memory) {
                 const CudaStream own;
                 check_cuda(cudaMemsetAsync(memory.data(), 0, sizeof(float), own.get()));
               }),
               "device memory: of GPU 1, but the thread uses GPU 0");
}

}  // namespace
}  // namespace carillon::testing
