#include "src/train/loop/training_setup.h"

#include <gmock/gmock.h>

#include "src/device/cpu_device.h"
#include "tests/support/io_fixtures.h"
#include "tests/support/mpi_world.h"
#include "tests/support/networks.h"

namespace carillon::testing {
namespace {

TEST(BatchMemory, OfABatchBeyondTheHostsIsRefusedNamingTheOption) {
  CpuDevice device(1);
  const Network network = mnist_network(mnist_images());
  for (const Purpose purpose : {Purpose::training, Purpose::evaluation}) {
    const auto try_batch = [&](std::int64_t batch_size) {
      const BuiltNetwork built = build_network(network, ten_classes(), {batch_size, Arithmetic::fp32, purpose});
      check_batch_fits(built, device, mpi_world().local_size(), {.option = "--global-batch 9"});
    };
    EXPECT_NO_THROW(try_batch(100));
    constexpr std::int64_t petabytes = std::int64_t{1} << 40;
    const Error error = error_of([&] { try_batch(petabytes); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), ::testing::StartsWith("--global-batch 9: needs "));
  }
}

}  // namespace
}  // namespace carillon::testing
