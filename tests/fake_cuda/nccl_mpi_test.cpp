// Tests of NCCL's communicator, on a fake NCCL that adds in rank order.
#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "carillon/core/error.h"
#include "carillon/core/reduction.h"
#include "src/comm/allreduce/communicators.h"
#include "src/device/cuda_device.h"
#include "support/fake_cuda/fake_cuda.h"
#include "support/fake_cuda/fake_nccl.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/mpi_world.h"
#include "tests/support/noise_batch.h"

namespace carillon::testing {
namespace {

class NcclTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    for (const char* const name : {"NCCL_WIN_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_ALGO"}) unsetenv(name);
    fake_cuda::nccl_variables();
  }

  static constexpr std::array<float, 6> values_ = {1.0f, -2.0f, 3.5f, 0.0f, 0.25f, 1e6f};

  static std::array<float, 6> downloaded(CudaDevice& device, const Buffer& memory) {
    std::array<float, 6> found{};
    device.download(memory.data(), found.data(), sizeof found);
    return found;
  }

  /// Expects correct sums, and that `windows` windows are registered.
  static void expect_sums(int windows) {
    CudaDevice device(0);
    const auto nccl = make_nccl_communicator(mpi_world(), device);
    const Buffer memory = nccl->allocate(sizeof values_);
    EXPECT_EQ(fake_cuda::nccl_windows(), windows);
    EXPECT_EQ(downloaded(device, memory), (std::array<float, 6>{}));
    device.upload(values_.data(), memory.data(), sizeof values_);
    nccl->start_allreduce_mean({static_cast<float*>(memory.data()), values_.size()}, device.stream());
    nccl->finish(device.stream());
    device.stream().synchronize();
    const std::array<float, 6> found = downloaded(device, memory);
    const auto ranks = static_cast<float>(mpi_world().size());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      EXPECT_EQ(found[i], values_[i] * ranks);
      EXPECT_EQ(found[i] * nccl->result_scale(), values_[i]);
    }
  }

  /// Expects correct sums without windows. Expects the text `expected` on stderr of rank 0, and no text on the other
  /// ranks.
  static void expect_sums_without_windows(const std::string& expected) {
    ::testing::internal::CaptureStderr();
    expect_sums(0);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), mpi_world().rank() == 0 ? expected : "");
  }

  static void set_windows(const char* value) { setenv("NCCL_WIN_ENABLE", value, 1); }
};

TEST_F(NcclTest, LeavesSumsOfWhichTheFactorMakesMeans) { expect_sums(0); }

TEST_F(NcclTest, RegistersGradientsOnRequest) {
  set_windows("1");
  expect_sums(1);
}

TEST_F(NcclTest, RegistersNothingIfARankDoesNotRequestIt) {
  if (mpi_world().rank() + 1 < mpi_world().size()) set_windows("1");
  expect_sums_without_windows("");
}

TEST_F(NcclTest, AveragesWithoutWindowsIfOneRankCannotRegister) {
  set_windows("1");
  const int last = mpi_world().size() - 1;
  fake_cuda::fail_nccl_windows(mpi_world().rank() == last);
  expect_sums_without_windows(fmt::format(
      "warning: NCCL has no window for gradients on rank {}; all ranks average without windows (NCCL_DEBUG=INFO for "
      "details)\n",
      last));
  fake_cuda::fail_nccl_windows(false);
}

TEST_F(NcclTest, AveragesWithoutWindowsIfGpusDoNotReachEachOther) {
  set_windows("1");
  fake_cuda::configure({.nccl_windows = false});
  ::testing::internal::CaptureStderr();
  expect_sums(0);
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      ::testing::StartsWith(mpi_world().rank() == 0 ? "warning: NCCL has no window for gradients on rank" : ""));
}

TEST_F(NcclTest, NcclFindsSettingsWithAFixedOrderOfSums) {
  CudaDevice device(0);
  const auto nccl = make_nccl_communicator(mpi_world(), device);
  EXPECT_THAT(fake_cuda::nccl_variables(), ::testing::Each("0 0 Ring"));
}

TEST_F(NcclTest, NcclFindsTheSettingsOfTheUser) {
  set_windows("1");
  setenv("NCCL_ALGO", "Tree", 1);
  CudaDevice device(0);
  const auto nccl = make_nccl_communicator(mpi_world(), device);
  EXPECT_THAT(fake_cuda::nccl_variables(), ::testing::Each("1 0 Tree"));
}

TEST_F(NcclTest, MeansOfSmallArraysAreMeans) {
  CudaDevice device(0);
  const auto nccl = make_nccl_communicator(mpi_world(), device);
  const Buffer memory = device.allocate(sizeof values_);
  device.upload(values_.data(), memory.data(), sizeof values_);
  nccl->mean({static_cast<float*>(memory.data()), values_.size()});
  EXPECT_EQ(downloaded(device, memory), values_);
}

/// Returns the values of a rank. The bits of their sum over the ranks depend on the order of the additions.
std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(rank) * 17) % 101) / 7.0f;
  }
  return values;
}

TEST_F(NcclTest, SumsAsATreeInTheOrderOfTheHost) {
  const int ranks = mpi_world().size();
  CudaDevice device(0);
  const auto nccl = make_nccl_communicator(mpi_world(), device, {.order = SumOrder::tree, .divisor = 3 * ranks});
  constexpr std::size_t count = 1000;
  const Buffer memory = nccl->allocate(count * sizeof(float));
  const std::span all(static_cast<float*>(memory.data()), count);
  const auto buckets = {all.first(16), all.subspan(16, 4), all.subspan(20)};
  nccl->prepare(count - 20);
  std::vector<std::vector<float>> parts;
  std::vector<const float*> pointers;
  for (int rank = 0; rank < ranks; ++rank) pointers.push_back(parts.emplace_back(values_of(rank, count)).data());
  std::vector<float> expected(count), found(count);
  // If there is one rank, its gradients are already means.
  const float factor = ranks == 1 ? 1.0f : 1.0f / static_cast<float>(3 * ranks);
  sum_in_order(pointers, count, factor, expected.data(), SumOrder::tree);
  for (int repetition = 0; repetition < 2; ++repetition) {
    device.upload(parts[static_cast<std::size_t>(mpi_world().rank())].data(), memory.data(), count * sizeof(float));
    for (const auto& bucket : buckets) nccl->start_allreduce_mean(bucket, device.stream());
    nccl->finish(device.stream());
    device.download(memory.data(), found.data(), count * sizeof(float));
    EXPECT_EQ(nccl->result_scale(), 1.0f);
    EXPECT_EQ(found, expected);
  }
}

/// Tests in which NCCL loses a peer after a tower has captured and replayed steps.
class LostNcclPeerTest : public NcclTest {
 protected:
  void TearDown() override {
    tower_.reset();
    nccl_.reset();
    device_.reset();
    NcclTest::TearDown();
  }

  void lose_peer() {
    if (mpi_world().rank() == 0) tower_->initialize(1);
    tower_->broadcast_from_first();
    for (int step = 0; step < 4; ++step) take(step);
    while (tower_->next_result(Results::all)) continue;
    fake_cuda::lose_nccl_peer(device_->side_stream().get());
    for (int step = 4; step < 24; ++step) take(step);
  }

  void take(int step) {
    const NoiseBatch samples(static_cast<std::uint64_t>(step), 8, 784);
    tower_->step({.step = step, .batch = samples.batch()});
  }

  std::string error_of_a_save() {
    CheckpointState state;
    try {
      tower_->save(state);
    } catch (const Error& error) {
      return error.what();
    }
    return "saved";
  }

  std::optional<CudaDevice> device_{0};
  std::unique_ptr<Communicator> nccl_ = make_nccl_communicator(mpi_world(), *device_);
  std::optional<Tower> tower_{std::in_place, small_network(), ten_classes(), settings(), *device_, *nccl_};

 private:
  static TowerSettings settings() {
    return {.batch_size = 8, .optimizer = {.learning_rate = Schedule([](auto) { return 0.1; })}};
  }
};

TEST_F(LostNcclPeerTest, EverySaveEndsWithTheLoss) {
  lose_peer();
  EXPECT_THAT(error_of_a_save(), ::testing::StartsWith("NCCL lost a peer or a link"));
  EXPECT_THAT(error_of_a_save(), ::testing::StartsWith("NCCL lost a peer or a link"));
}

TEST_F(LostNcclPeerTest, TheTowerEndsWithItsStreamsBlocked) {
  lose_peer();
  tower_.reset();
}

}  // namespace
}  // namespace carillon::testing
