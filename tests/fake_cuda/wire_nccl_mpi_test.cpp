// --wire bf16 on ranks with a GPU each: NCCL sums buckets that are rounded to bfloat16. NCCL's fake adds in rank order
// and rounds each sum.
#include <cmath>

#include "src/comm/allreduce/communicators.h"
#include "src/core/bf16.h"
#include "src/device/cuda_device.h"
#include "src/train/preflight/preflight_averaging.h"
#include "support/fake_cuda/fake_cuda.h"
#include "tests/gpu/gpu_under_test.h"
#include "tests/gpu/towers.h"
#include "tests/support/mpi_world.h"
#include "tests/support/op_harness.h"

namespace carillon::testing {
namespace {

constexpr Averaging rounding{.wire = Wire::bf16};

float rounded(float value) { return to_float(to_bf16(value)); }

class WireOfBf16 : public GpuTest {
 protected:
  void begin(std::uint64_t seed) const {
    fake_cuda::configure({.seed = 10 * seed + static_cast<std::uint64_t>(rank_), .devices = ranks_});
  }
  Trained trained(const Training& training, const Averaging& averaging, std::uint64_t seed = 1) const {
    begin(seed);
    CudaDevice device(rank_);
    return train(training, records_, device, *make_communicator(mpi_world(), device, "nccl", {}, averaging));
  }
  static Training training(int steps) {
    return {.network = branching_network(), .batch_size = 4, .steps = steps, .bucket_bytes = 1024};
  }

  NoiseRecords records_{97, 784};
  int ranks_ = mpi_world().size(), rank_ = mpi_world().rank();
};

TEST_F(WireOfBf16, RoundsBucketsAndNothingThatIsToBeExact) {
  constexpr std::size_t count = 400, exact = 16;
  begin(1);
  CudaDevice device(rank_);
  const auto nccl = make_nccl_communicator(mpi_world(), device, rounding);
  EXPECT_EQ(nccl->rounds(), ranks_ > 1);
  EXPECT_EQ(nccl->name(), ranks_ > 1 ? "nccl, bf16" : "nccl");
  const Buffer memory = nccl->allocate((count + exact) * sizeof(float));
  const std::span all(static_cast<float*>(memory.data()), count + exact);
  nccl->prepare(count - 64);
  std::vector<std::vector<float>> parts;
  for (int rank = 0; rank < ranks_; ++rank) {
    parts.push_back(random_values(all.size(), static_cast<std::uint64_t>(rank)));
  }
  for (int step = 0; step < 2; ++step) {
    device.upload(parts[static_cast<std::size_t>(rank_)].data(), memory.data(), all.size_bytes());
    nccl->start_allreduce_mean(all.first(64), device.stream());
    nccl->start_allreduce_mean(all.subspan(64, count - 64), device.stream());
    nccl->start_exact_allreduce_mean(all.subspan(count), device.stream());
    nccl->finish(device.stream());
    std::vector<float> found(all.size());
    device.download(memory.data(), found.data(), all.size_bytes());
    for (std::size_t i = 0; i < found.size(); ++i) {
      double sum = 0.0, magnitude = 0.0;
      for (const std::vector<float>& part : parts) {
        sum += part[i];
        magnitude += std::fabs(part[i]);
      }
      const bool is_rounded = ranks_ > 1 && i < count;
      // Each rank's value and each partial sum is rounded once, by at most 2^-9 of it.
      const double bound = magnitude * (is_rounded ? ranks_ * 0x1p-8 : 0x1p-22);
      ASSERT_NEAR(found[i], sum, bound) << "element " << i;
      EXPECT_TRUE(!is_rounded || found[i] == rounded(found[i])) << "element " << i;
    }
  }
}

TEST_F(WireOfBf16, RefusesABucketThatIsLargerThanPrepared) {
  if (ranks_ == 1) return;
  begin(1);
  CudaDevice device(rank_);
  const auto nccl = make_nccl_communicator(mpi_world(), device, rounding);
  const Buffer memory = nccl->allocate(64 * sizeof(float));
  nccl->prepare(32);
  EXPECT_ANY_THROW(nccl->start_allreduce_mean({static_cast<float*>(memory.data()), 48}, device.stream()));
}

TEST_F(WireOfBf16, PassesThePreflight) {
  begin(1);
  CudaDevice device(rank_);
  const auto nccl = make_nccl_communicator(mpi_world(), device, rounding);
  const std::string text = try_averaging({.network = "net", .gradients = 1000, .bucket_bytes = 512, .divisor = ranks_},
                                         mpi_world(), device, *nccl);
  EXPECT_TRUE(ranks_ == 1 || text.find("averaging by nccl, bf16: ") == 0) << text;
}

TEST_F(WireOfBf16, TrainsNearlyAsFloat32) {
  const Trained exact = trained(training(30), {}), start = trained(training(0), {}),
                found = trained(training(30), rounding);
  const double travelled = distance(exact.values, start.values);
  EXPECT_LT(distance(found.values, exact.values), 0.02 * travelled);
  ASSERT_EQ(found.results.size(), exact.results.size());
  EXPECT_EQ(found.results.front().loss, exact.results.front().loss) << "step sums are not rounded";
  for (std::size_t i = 0; i < found.results.size(); ++i) {
    EXPECT_NEAR(found.results[i].loss, exact.results[i].loss, 0.02 * exact.results[i].loss) << "step " << i;
  }
  if (ranks_ > 1) {
    EXPECT_GT(distance(found.values, exact.values), 1e-5 * travelled) << "nothing was rounded";
  }
}

TEST_F(WireOfBf16, GivesTheSameBitsInEveryRunAndOnEveryRank) {
  Training eager = training(24);
  eager.observe_every = 20;
  const Trained first = trained(eager, rounding), again = trained(eager, rounding, 2);
  expect_equal(again, first);
  EXPECT_EQ(again.observed, first.observed);
  EXPECT_FALSE(first.captured_nodes.empty());
  eager.capture = false;
  const Trained launched = trained(eager, rounding, 3);
  expect_equal(launched, first);
  EXPECT_EQ(launched.observed, first.observed);
  const std::string mine(reinterpret_cast<const char*>(first.values.data()), first.values.size() * sizeof(float));
  for (const std::string& values : mpi_world().all_gather(mine)) EXPECT_TRUE(values == mine) << "ranks differ";
}

TEST_F(WireOfBf16, IsTogetherWithBatchNormsOverAllRanks) {
  Training both{.network = residual_network(), .batch_size = 8 / ranks_, .steps = 4, .bucket_bytes = 1024};
  both.network.sync_batch_norm = true;
  Training nothing = both;
  nothing.steps = 0;
  const Trained exact = trained(both, {}), found = trained(both, rounding);
  EXPECT_LT(distance(found.values, exact.values), 0.02 * distance(exact.values, trained(nothing, {}).values));
}

}  // namespace
}  // namespace carillon::testing
